"""Heartbeats: answered from memory, stored every second in one transaction."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, insert, select, update

from bentpipe.testbed.orchestrator.database.tables import BootRow, NodeRow, RunEventRow
from bentpipe.testbed.orchestrator.metrics import HEARTBEATS
from bentpipe.testbed.orchestrator.services.refusals import ConflictError
from bentpipe.testbed.schemas.agent_protocol import HeartbeatAnswer

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Orchestrator, Transaction
    from bentpipe.testbed.orchestrator.node_table import KnownNode
    from bentpipe.testbed.schemas.agent_protocol import Heartbeat

ORCHESTRATOR_BOOT = "0" * 32
"""Boot id of notes that the orchestrator writes of a node."""
NOTE_MS = 3600 * 1000
"""Least time between two notes that an older agent still calls [ms]."""


@dataclass
class Heartbeats:
    """Heartbeats that wait to be stored: the newest of each node."""

    orchestrator: Orchestrator
    _waiting: dict[str, dict[str, Any]] = field(default_factory=dict)
    _yielding: set[str] = field(default_factory=set)

    async def beat(self, node: KnownNode, heartbeat: Heartbeat, received_at_ms: float) -> HeartbeatAnswer:
        """Take a heartbeat. Raises `ConflictError`: an older agent with the identity of a newer one."""
        if node.boot_id != heartbeat.boot_id or node.next_seq is None:
            await check_boot(self.orchestrator, node, heartbeat.boot_id)
        HEARTBEATS.inc()
        if heartbeat.status.scavenger in ("yielding", "quiet"):
            self._yielding.add(node.node)
        elif node.node in self._yielding:  # preempted runs may be planned anew
            self._yielding.discard(node.node)
            self.orchestrator.wakeups.wake((), planner=True)
        self._waiting[node.node] = {
            "which": node.node,
            "boot": heartbeat.boot_id,
            "seen": round(received_at_ms),
            "how": heartbeat.status.to_dict(),
        }
        return HeartbeatAnswer(
            received_at_ms=received_at_ms,
            sent_at_ms=time.time_ns() / 1e6,
            version=node.version,
            next_seq=node.next_seq or 1,
        )

    async def flush(self) -> int:
        """Store what waits, in one transaction. Return how many nodes."""
        if not self._waiting:
            return 0
        waiting, self._waiting = self._waiting, {}
        statement = (
            update(NodeRow)
            .where(NodeRow.id == bindparam("which"), NodeRow.boot_id == bindparam("boot"))
            .values(seen_at_ms=bindparam("seen"), status=bindparam("how"), lost=False)
        )
        values = [waiting[node] for node in sorted(waiting)]
        async with self.orchestrator.write() as transaction:
            await transaction.connection.execute(statement, values)
        return len(values)


async def check_boot(orchestrator: Orchestrator, node: KnownNode, boot_id: str) -> None:
    """Note that an agent started, in the database and in memory.

    Raises:
        ConflictError: It is an older start, so two agents have one identity: the newer one stays.
    """
    async with orchestrator.write() as transaction:
        next_seq = await enter_boot(transaction, node.node, boot_id)
    if next_seq is None:
        raise ConflictError(
            "a newer agent has this node's identity; expected one agent per node; try a join token of its own",
            code="older_agent",
        )
    node.boot_id, node.next_seq = boot_id, next_seq


async def enter_boot(transaction: Transaction, node: str, boot_id: str) -> int | None:
    """Note that an agent started; return the number of its first event that has not arrived; None: an older start."""
    newest = await transaction.scalar(select(NodeRow.boot_id).where(NodeRow.id == node).with_for_update())
    row = await transaction.first(
        select(BootRow.next_seq, BootRow.noted_at_ms).where(BootRow.node_id == node, BootRow.boot_id == boot_id)
    )
    if row is None:
        await transaction.execute(
            insert(BootRow).values(
                node_id=node, boot_id=boot_id, first_at_ms=transaction.now_ms, next_seq=1, noted_at_ms=0
            )
        )
        await transaction.execute(
            update(NodeRow).where(NodeRow.id == node).values(boot_id=boot_id, boot_at_ms=transaction.now_ms)
        )
        return 1
    if newest == boot_id:
        return int(row.next_seq)
    if row.noted_at_ms < transaction.now_ms - NOTE_MS:
        await note(transaction, node, "agent", "two agents have this node's identity: the older one is refused")
        await transaction.execute(
            update(BootRow)
            .where(BootRow.node_id == node, BootRow.boot_id == boot_id)
            .values(noted_at_ms=transaction.now_ms)
        )
    return None


async def note(transaction: Transaction, node: str, topic: str, text: str, run: str | None = None) -> None:
    """Write a note of the orchestrator about a node, as those of agents."""
    last = await transaction.scalar(
        select(RunEventRow.seq)
        .where(RunEventRow.node_id == node, RunEventRow.boot_id == ORCHESTRATOR_BOOT)
        .order_by(RunEventRow.seq.desc())
        .limit(1)
    )
    await transaction.execute(
        insert(RunEventRow).values(
            node_id=node,
            boot_id=ORCHESTRATOR_BOOT,
            seq=(last or 0) + 1,
            at_ms=transaction.now_ms,
            received_at_ms=transaction.now_ms,
            kind="note",
            run_id=run,
            waits=False,
            body={"kind": "note", "topic": topic, "text": text[:500], "run": run},
        )
    )
