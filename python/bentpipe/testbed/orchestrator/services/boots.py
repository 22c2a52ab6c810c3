"""Starts of agents: noted for many nodes in one transaction, because all of them may start at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, insert, select, tuple_, update

from bentpipe.testbed.orchestrator.database.tables import BootRow, NodeRow
from bentpipe.testbed.orchestrator.services.notes import note
from bentpipe.testbed.orchestrator.services.refusals import ConflictError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.testbed.orchestrator.context import Orchestrator, Transaction
    from bentpipe.testbed.orchestrator.node_table import KnownNode

NOTE_MS = 3600 * 1000
"""Least time between two notes that an older agent still calls [ms]."""
UNSEEN = -1
"""`noted_at_ms` of a start of which only events came so far: it is the newest one from its first heartbeat on."""
MOST = 300
"""Starts of one transaction."""


@dataclass
class Boots:
    """Starts that wait to be noted."""

    orchestrator: Orchestrator
    _waiting: dict[tuple[str, str], asyncio.Future[int | None]] = field(default_factory=dict)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def check(self, node: KnownNode, boot_id: str) -> None:
        """Note that an agent started, in the database and in memory.

        Raises:
            ConflictError: It is an older start, so two agents have one identity: the newer one stays.
        """
        key = (node.node, boot_id)
        if key not in self._waiting:
            self._waiting[key] = asyncio.get_running_loop().create_future()
        future = self._waiting[key]
        async with self._turn:
            while not future.done():
                await self._note()
        next_seq = future.result()
        if next_seq is None:
            raise ConflictError(
                "a newer agent has this node's identity; expected one agent per node; try a join token of its own",
                code="older_agent",
            )
        node.boot_id, node.next_seq = boot_id, max(next_seq, node.next_seq or 0 if node.boot_id == boot_id else 0)

    async def know(self, node: KnownNode, boot_id: str) -> None:
        """Note a start whose events come. They count from every start: a kill left those of an older one unsent."""
        row = (BootRow.node_id == node.node) & (BootRow.boot_id == boot_id)
        async with self.orchestrator.read() as transaction:
            if await transaction.first(select(BootRow.next_seq).where(row)) is not None:
                return
        async with self._turn, self.orchestrator.write() as transaction:
            if await transaction.first(select(BootRow.next_seq).where(row)) is None:
                new = {"node_id": node.node, "boot_id": boot_id, "first_at_ms": transaction.now_ms}
                await transaction.execute(insert(BootRow).values(**new, next_seq=1, noted_at_ms=UNSEEN))

    async def _note(self) -> None:
        """Note what waits, in one transaction."""
        keys = list(self._waiting)[:MOST]
        futures = [self._waiting.pop(key) for key in keys]
        try:
            async with self.orchestrator.write() as transaction:
                numbers = await enter(transaction, keys)
        except BaseException as error:
            for future in futures:
                future.set_exception(error)
                future.exception()  # it is raised to who waits, if anybody does
            raise
        for key, future in zip(keys, futures, strict=True):
            future.set_result(numbers[key])


async def enter(transaction: Transaction, keys: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], int | None]:
    """Note starts (node, boot id); return the number of each one's first event that has not arrived; None: older."""
    nodes = sorted({node for node, _ in keys})
    newest = {
        row.id: row.boot_id
        for row in await transaction.rows(
            select(NodeRow.id, NodeRow.boot_id).where(NodeRow.id.in_(nodes)).order_by(NodeRow.id).with_for_update()
        )
    }
    known = {
        (row.node_id, row.boot_id): row
        for row in await transaction.rows(
            select(BootRow.node_id, BootRow.boot_id, BootRow.next_seq, BootRow.noted_at_ms).where(
                tuple_(BootRow.node_id, BootRow.boot_id).in_(list(keys))
            )
        )
    }
    numbers: dict[tuple[str, str], int | None] = {}
    new: list[dict[str, Any]] = []
    seen: list[tuple[str, str]] = []
    for key in keys:
        node, boot_id = key
        if key not in known:
            new.append({"node_id": node, "boot_id": boot_id, "first_at_ms": transaction.now_ms})
            newest[node] = boot_id
            numbers[key] = 1
        elif newest[node] == boot_id or known[key].noted_at_ms == UNSEEN:
            numbers[key] = int(known[key].next_seq)
            if newest[node] != boot_id:
                newest[node] = boot_id
                seen.append(key)
        else:
            numbers[key] = None
            await _note_older(transaction, known[key])
    if new:
        await transaction.execute(insert(BootRow), [{**row, "next_seq": 1, "noted_at_ms": 0} for row in new])
    if seen:
        its = tuple_(BootRow.node_id, BootRow.boot_id).in_(seen)
        await transaction.execute(update(BootRow).where(its).values(noted_at_ms=0))
    begun = [*((row["node_id"], row["boot_id"]) for row in new), *seen]
    if begun:
        statement = (
            update(NodeRow)
            .where(NodeRow.id == bindparam("which"))
            .values(boot_id=bindparam("boot"), boot_at_ms=transaction.now_ms)
        )
        rows = [{"which": node, "boot": boot} for node, boot in begun]
        await transaction.connection.execute(statement, rows)
    return numbers


async def _note_older(transaction: Transaction, row: Any) -> None:  # noqa: ANN401 - a row
    if row.noted_at_ms >= transaction.now_ms - NOTE_MS:
        return
    await note(transaction, row.node_id, "agent", "two agents have this node's identity: the older one is refused")
    await transaction.execute(
        update(BootRow)
        .where(BootRow.node_id == row.node_id, BootRow.boot_id == row.boot_id)
        .values(noted_at_ms=transaction.now_ms)
    )
