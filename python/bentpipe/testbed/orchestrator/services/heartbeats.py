"""Heartbeats: answered from memory, stored every second in one transaction."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, update

from bentpipe.testbed.orchestrator.database.tables import NodeRow
from bentpipe.testbed.orchestrator.metrics import HEARTBEATS
from bentpipe.testbed.schemas.agent_protocol import HeartbeatAnswer

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Orchestrator
    from bentpipe.testbed.orchestrator.node_table import KnownNode
    from bentpipe.testbed.orchestrator.services.boots import Boots
    from bentpipe.testbed.schemas.agent_protocol import Heartbeat


@dataclass
class Heartbeats:
    """Heartbeats that wait to be stored: the newest of each node."""

    orchestrator: Orchestrator
    boots: Boots
    _waiting: dict[str, dict[str, Any]] = field(default_factory=dict)
    _yielding: set[str] = field(default_factory=set)

    async def beat(self, node: KnownNode, heartbeat: Heartbeat, received_at_ms: float) -> HeartbeatAnswer:
        """Take a heartbeat. Raises `ConflictError`: an older agent with the identity of a newer one."""
        if node.boot_id != heartbeat.boot_id or node.next_seq is None:
            await self.boots.check(node, heartbeat.boot_id)
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
