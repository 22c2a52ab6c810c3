"""Place runs: the due time if it is free or can be made so, else the first free slot within the slip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.testbed.orchestrator.services.slots import PREPARE_MS, displaceable, first_free, is_free

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.orchestrator.services.slots import NodeCalendar
    from bentpipe.testbed.schemas.experiment import BookingClass

LEAD_MS = 15_000
"""Least time between planning and a start [ms]: the nodes fetch their calendar and prepare."""


@dataclass(frozen=True)
class Place:
    """A slot.

    Attributes:
        start_at_ms: Start [ms since 1970].
        displaced: Runs of lower priority that have to move.
    """

    start_at_ms: int
    displaced: frozenset[str] = frozenset()


def find_place(
    calendars: Sequence[NodeCalendar],
    booking_class: BookingClass,
    duration_ms: int,
    due_at_ms: int,
    latest_at_ms: int,
    priority: int,
    now_ms: int,
) -> Place | None:
    """Return the slot of a run; None: there is none until its latest start.

    A run of higher priority displaces at its due time; if it cannot, it slips as others do.
    """
    earliest = max(due_at_ms, now_ms + LEAD_MS)
    if earliest > latest_at_ms:
        return None
    if is_free(calendars, booking_class, duration_ms, earliest):
        return Place(earliest)
    displaced = displaceable(calendars, booking_class, duration_ms, earliest, priority)
    if displaced is not None:
        return Place(earliest, frozenset(displaced))
    start = first_free(calendars, booking_class, duration_ms, earliest, latest_at_ms)
    return None if start is None else Place(start)


__all__ = ["LEAD_MS", "PREPARE_MS", "Place", "find_place"]
