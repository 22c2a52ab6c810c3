"""The orchestrator: its database, store, clock and wake-ups, and the transactions in which services decide."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sqlalchemy import bindparam, insert, update

from bentpipe.testbed.orchestrator.database.tables import BootRow, NodeRow, RunEventRow
from bentpipe.testbed.orchestrator.defaults import NODE_BYTES
from bentpipe.testbed.orchestrator.node_table import NodeTable
from bentpipe.testbed.orchestrator.wakeups import Wakeups

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from sqlalchemy import Executable, Row
    from sqlalchemy.ext.asyncio import AsyncConnection

    from bentpipe.testbed.orchestrator.database.engines import Database
    from bentpipe.testbed.orchestrator.security.authority import Authority
    from bentpipe.testbed.orchestrator.security.oidc.login import OidcLogin
    from bentpipe.testbed.orchestrator.security.sessions import Sessions
    from bentpipe.testbed.orchestrator.services.oidc_logins import Refusals
    from bentpipe.testbed.orchestrator.services.result_figures import ResultFigures
    from bentpipe.testbed.orchestrator.storage import Storage


T = TypeVar("T")
MOST_TOGETHER = 100
"""Requests that share a transaction."""


def wall_clock_ms() -> int:
    """Return the time [ms since 1970]."""
    return time.time_ns() // 10**6


@dataclass
class Transaction:
    """A connection in a transaction, and what to wake once it is committed.

    Attributes:
        connection: The connection.
        now_ms: When the transaction began; all its rows have this time [ms since 1970].
        changed_nodes: Nodes whose wanted state it changed.
        wakes_planner: Whether the planner has work.
        events: Rows of `run_events` that are written at its end, or by `write_events`.
        next_seqs: Number of the first event that has not arrived, by node and start of its agent, where it changed.
    """

    connection: AsyncConnection
    now_ms: int
    changed_nodes: set[str] = field(default_factory=set)
    wakes_planner: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)
    next_seqs: dict[tuple[str, str], int] = field(default_factory=dict)

    async def execute(self, statement: Executable, values: Any = None) -> Any:  # noqa: ANN401 - a result of SQLAlchemy
        """Execute a statement; a list of values: once for each."""
        return await self.connection.execute(statement, values)

    async def rows(self, statement: Executable, values: Any = None) -> Sequence[Row[Any]]:  # noqa: ANN401 - parameters
        """Return all rows."""
        return (await self.connection.execute(statement, values)).all()

    async def first(self, statement: Executable) -> Row[Any] | None:
        """Return the first row; None: there is none."""
        return (await self.connection.execute(statement)).first()

    async def scalar(self, statement: Executable) -> Any:  # noqa: ANN401 - a value of a column
        """Return the first value of the first row; None: there is none."""
        return (await self.connection.execute(statement)).scalar()

    async def change(self, statement: Executable) -> int:
        """Execute an update or a deletion; return the number of rows that it struck."""
        return int((await self.connection.execute(statement)).rowcount)

    def touch(self, nodes: Iterable[str | None]) -> None:
        """Note that the wanted state of nodes changes in this transaction."""
        self.changed_nodes.update(node for node in nodes if node is not None)

    async def write_events(self) -> None:
        """Write the events so far, for who reads them in this transaction."""
        if self.events:
            await self.connection.execute(insert(RunEventRow), self.events)
            self.events.clear()

    async def finish(self) -> None:
        """Raise the versions of the nodes whose wanted state changed: in the same transaction as the change."""
        await self.write_events()
        if self.next_seqs:
            seqs = update(BootRow).where(BootRow.node_id == bindparam("which"), BootRow.boot_id == bindparam("boot"))
            rows = [{"which": node, "boot": boot, "number": number} for (node, boot), number in self.next_seqs.items()]
            await self.connection.execute(seqs.values(next_seq=bindparam("number")), rows)
        if not self.changed_nodes:
            return
        statement = update(NodeRow).where(NodeRow.id == bindparam("which")).values(version=NodeRow.version + 1)
        nodes = sorted(self.changed_nodes)  # one order: two transactions do not wait for each other in a circle
        await self.connection.execute(statement, [{"which": node} for node in nodes])


Act: TypeAlias = "Callable[[Transaction], Awaitable[Any]]"
"""What is done in a transaction; it may be done once more if that one fails."""


@dataclass
class Orchestrator:
    """What services share.

    Attributes:
        database: The database.
        storage: Results and files.
        authority: Certificates of nodes.
        folder: Folder of the orchestrator's own files, as partial uploads.
        clock: Time [ms since 1970].
        wakeups: Who waits for changes.
        nodes: Nodes in memory, for heartbeats.
        agents_url: Address that nodes dial.
        unplannable: Plans whose planning failed → when it is tried again [ms since 1970].
        oidc: Login at an identity provider; None: none.
        node_bytes: Quota of a node's committed results [bytes]; 0: none.
    """

    database: Database
    storage: Storage
    authority: Authority
    folder: Path
    clock: Callable[[], int] = wall_clock_ms
    wakeups: Wakeups = field(default_factory=Wakeups)
    nodes: NodeTable = field(default_factory=NodeTable)
    agents_url: str = ""
    unplannable: dict[str, int] = field(default_factory=dict)
    oidc: OidcLogin | None = None
    node_bytes: int = NODE_BYTES
    _acts: list[tuple[Act, asyncio.Future[Any]]] = field(default_factory=list)
    _group: asyncio.Lock = field(default_factory=asyncio.Lock)

    @cached_property
    def sessions(self) -> Sessions:
        """Sessions of the dashboard."""
        from bentpipe.testbed.orchestrator.security.sessions import Sessions

        return Sessions.open(self.authority.folder, self.clock)

    @cached_property
    def figures(self) -> ResultFigures:
        """Figures of results."""
        from bentpipe.testbed.orchestrator.services.result_figures import ResultFigures

        return ResultFigures(self)

    @cached_property
    def oidc_refusals(self) -> Refusals:
        """Refused logins at the identity provider, for the audit."""
        from bentpipe.testbed.orchestrator.services.oidc_logins import Refusals

        return Refusals()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Transaction]:
        """Yield a transaction; after its commit the nodes and workers that it concerns are awake."""
        async with self.database.write() as connection:
            transaction = Transaction(connection, self.clock())
            yield transaction
            await transaction.finish()
            if not self.database.is_sqlite:
                await self.wakeups.announce(connection, transaction.changed_nodes, transaction.wakes_planner)
            fresh = await self.nodes.read_versions(connection, transaction.changed_nodes)
        self.nodes.set_versions(fresh)
        self.nodes.set_next_seqs(transaction.next_seqs)
        self.wakeups.wake(transaction.changed_nodes, planner=transaction.wakes_planner)

    async def write_grouped(self, act: Callable[[Transaction], Awaitable[T]]) -> T:
        """Act in a transaction that others may share: one flush to the disk for all that wait.

        Returns when it is committed. If one fails, each acts anew in a transaction of its own: an error undoes what its
        `act` did, and nothing of the others.
        """
        if not self.database.is_sqlite:
            async with self.write() as transaction:
                return await act(transaction)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._acts.append((act, future))
        async with self._group:
            if not future.done():
                await self._act_together()
        return await future

    async def _act_together(self) -> None:
        acts, self._acts[:] = self._acts[:MOST_TOGETHER], self._acts[MOST_TOGETHER:]
        try:
            async with self.write() as transaction:
                results = [await act(transaction) for act, _ in acts]
        except Exception as error:  # noqa: BLE001 - it goes to who asked
            await self._act_apart(acts, error)
            return
        for (_, future), result in zip(acts, results, strict=True):
            if not future.done():  # else nobody waits any more
                future.set_result(result)

    async def _act_apart(self, acts: Sequence[tuple[Act, asyncio.Future[Any]]], error: Exception) -> None:
        """Act in a transaction for each, after one failed together with the others."""
        for act, future in acts:
            failure: Exception | None = error
            if len(acts) > 1:
                try:
                    async with self.write() as transaction:
                        result = await act(transaction)
                    failure = None
                except Exception as own:  # noqa: BLE001 - it goes to who asked
                    failure = own
            if future.done():
                continue
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Transaction]:
        """Yield a transaction that only reads."""
        async with self.database.read() as connection:
            yield Transaction(connection, self.clock())
