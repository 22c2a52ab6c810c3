"""The newest samples of nodes in memory, for pages that somebody looks at. Recordings come with results."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import select, update

from bentpipe.testbed.orchestrator.database.tables import NodeRow

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Orchestrator
    from bentpipe.testbed.schemas.agent_protocol import TelemetryBatch

ROWS = 600
"""Samples that are kept of each node."""
LOOK_MS = 60_000
"""How long after the last look a node sends once a second [ms]."""


@dataclass
class Telemetry:
    """Newest samples by node."""

    orchestrator: Orchestrator
    _columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _rows: dict[str, deque[tuple[float | None, ...]]] = field(default_factory=dict)
    _looked_at_ms: dict[str, int] = field(default_factory=dict)

    def take(self, node: str, batch: TelemetryBatch) -> None:
        """Keep a batch; other columns than before begin anew."""
        if self._columns.get(node) != batch.columns:
            self._columns[node] = batch.columns
            self._rows[node] = deque(maxlen=ROWS)
        self._rows[node].extend(row for row in batch.rows if len(row) == len(batch.columns))

    async def look(self, node: str) -> tuple[tuple[str, ...], list[tuple[float | None, ...]]]:
        """Return columns and rows of a node; it then sends once a second for a minute."""
        is_new = node not in self._looked_at_ms
        self._looked_at_ms[node] = self.orchestrator.clock()
        if is_new:
            await self._set_live(node, live=True)
        return self._columns.get(node, ()), list(self._rows.get(node, ()))

    async def end_looks(self) -> None:
        """Let nodes at which nobody looks any more send seldom."""
        limit = self.orchestrator.clock() - LOOK_MS
        for node in [node for node, at_ms in self._looked_at_ms.items() if at_ms < limit]:
            del self._looked_at_ms[node]
            await self._set_live(node, live=False)

    async def _set_live(self, node: str, *, live: bool) -> None:
        async with self.orchestrator.write() as transaction:
            settings = await transaction.scalar(select(NodeRow.settings).where(NodeRow.id == node).with_for_update())
            if settings is None or settings.get("live") == live:
                return
            await transaction.execute(
                update(NodeRow).where(NodeRow.id == node).values(settings={**settings, "live": live})
            )
            transaction.touch([node])
