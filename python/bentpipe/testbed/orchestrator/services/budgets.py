"""Byte budgets: what the runs of a plan use, or may use, in a sliding period."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import case, select

from bentpipe.testbed.orchestrator.database.tables import RunRow
from bentpipe.testbed.schemas.states import FINAL

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Transaction
    from bentpipe.testbed.schemas.quantities import Budget


@dataclass
class Usage:
    """Bytes of a plan's runs by start; one that has not ended counts with all that it may use.

    Attributes:
        budget: The budget; None: none.
    """

    budget: Budget | None
    _runs: list[tuple[int, int]] = field(default_factory=list)

    def add(self, start_at_ms: int, size_bytes: int) -> None:
        """Count a run."""
        if self.budget is not None and size_bytes:
            insort(self._runs, (start_at_ms, size_bytes))

    def allows(self, start_at_ms: int, size_bytes: int) -> bool:
        """Return whether every period with this run stays within the budget."""
        if self.budget is None:
            return True
        period_ms = round(self.budget.period_s * 1000)
        near = sorted(
            [*(run for run in self._runs if abs(run[0] - start_at_ms) < period_ms), (start_at_ms, size_bytes)]
        )
        total, last = 0, 0
        for first_at_ms, first_bytes in near:
            if first_at_ms > start_at_ms:
                break
            while last < len(near) and near[last][0] < first_at_ms + period_ms:
                total += near[last][1]
                last += 1
            if total > self.budget.size_bytes:
                return False
            total -= first_bytes
        return True

    def first_allowed(self, earliest_at_ms: int, latest_at_ms: int, size_bytes: int) -> int | None:
        """Return the first start with room in the budget; None: there is none until `latest_at_ms`."""
        if self.budget is None or self.allows(earliest_at_ms, size_bytes):
            return earliest_at_ms
        period_ms = round(self.budget.period_s * 1000)
        ends = sorted({at + period_ms for at, _ in self._runs if earliest_at_ms < at + period_ms <= latest_at_ms})
        return next((end for end in ends if self.allows(end, size_bytes)), None)


async def load_usage(transaction: Transaction, plan: str, budget: Budget | None, from_at_ms: int) -> Usage:
    """Return the usage of a plan from a period before a time on."""
    usage = Usage(budget)
    if budget is None:
        return usage
    used = case((RunRow.state.in_(FINAL), RunRow.up_bytes + RunRow.down_bytes), else_=RunRow.reserved_bytes)
    statement = select(RunRow.start_at_ms, used.label("used")).where(
        RunRow.plan_id == plan, RunRow.start_at_ms > from_at_ms - round(budget.period_s * 1000)
    )
    for row in await transaction.rows(statement):
        usage.add(row.start_at_ms, row.used)
    return usage
