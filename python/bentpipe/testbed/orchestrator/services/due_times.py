"""Due times of a schedule: cron lines in their time zone, periods, single times."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from bentpipe.testbed.schemas.experiment import Schedule


def next_due(schedule: Schedule, created_at_ms: int, after_at_ms: int | None) -> int | None:
    """Return the first due time after a time; None: there is none any more.

    Args:
        schedule: The schedule.
        created_at_ms: When the experiment was submitted: the due time of ``now``, the first of ``every`` [ms].
        after_at_ms: The due time before; None: the first is wanted [ms].

    Example:
        >>> from bentpipe.testbed.schemas.experiment import Schedule
        >>> line = Schedule(cron="30 2 * * *", timezone="Europe/Madrid")
        >>> from bentpipe.testbed.schemas.quantities import at_text
        >>> at_text(next_due(line, 0, 1_774_742_400_000))  # 2026-03-29: 02:30 is left out, so at 03:00
        '2026-03-29T01:00:00Z'
    """
    if schedule.trigger is not None:
        return None
    if schedule.cron is not None:
        return _next_cron(schedule, created_at_ms - 1 if after_at_ms is None else after_at_ms)
    first = created_at_ms if schedule.at is None else schedule.at
    if after_at_ms is None or after_at_ms < first:
        return first
    if schedule.every is None:
        return None
    period_ms = round(schedule.every * 1000)
    return first + ((after_at_ms - first) // period_ms + 1) * period_ms


def _next_cron(schedule: Schedule, after_at_ms: int) -> int | None:
    from cronsim import CronSim

    zone = ZoneInfo(schedule.timezone)
    after = datetime.fromtimestamp(after_at_ms / 1000, zone)
    for due in CronSim(schedule.cron or "", after):
        due_at_ms = round(due.astimezone(UTC).timestamp() * 1000)
        if due_at_ms > after_at_ms:
            return due_at_ms
    return None
