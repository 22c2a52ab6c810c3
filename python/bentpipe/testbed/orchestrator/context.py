"""The orchestrator: its database, store, clock and wake-ups, and the transactions in which services decide."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, update

from bentpipe.testbed.orchestrator.database.tables import NodeRow
from bentpipe.testbed.orchestrator.node_table import NodeTable
from bentpipe.testbed.orchestrator.wakeups import Wakeups

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from sqlalchemy import Executable, Row
    from sqlalchemy.ext.asyncio import AsyncConnection

    from bentpipe.testbed.orchestrator.database.engines import Database
    from bentpipe.testbed.orchestrator.security.authority import Authority
    from bentpipe.testbed.orchestrator.storage import Storage


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
    """

    connection: AsyncConnection
    now_ms: int
    changed_nodes: set[str] = field(default_factory=set)
    wakes_planner: bool = False

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

    async def finish(self) -> None:
        """Raise the versions of the nodes whose wanted state changed: in the same transaction as the change."""
        if not self.changed_nodes:
            return
        statement = update(NodeRow).where(NodeRow.id == bindparam("which")).values(version=NodeRow.version + 1)
        nodes = sorted(self.changed_nodes)  # one order: two transactions do not wait for each other in a circle
        await self.connection.execute(statement, [{"which": node} for node in nodes])


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
    """

    database: Database
    storage: Storage
    authority: Authority
    folder: Path
    clock: Callable[[], int] = wall_clock_ms
    wakeups: Wakeups = field(default_factory=Wakeups)
    nodes: NodeTable = field(default_factory=NodeTable)
    agents_url: str = ""

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
        self.wakeups.wake(transaction.changed_nodes, planner=transaction.wakes_planner)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Transaction]:
        """Yield a transaction that only reads."""
        async with self.database.read() as connection:
            yield Transaction(connection, self.clock())
