"""Place runs: the due time if it is free or can be made so, else the first free slot within slip and hosts' hours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.testbed.orchestrator.services.slots import PREPARE_MS, displaceable, first_free, is_free

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.orchestrator.services.host_rules import Hours
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
    hours: Hours,
) -> Place | None:
    """Return the slot of a run in the hours of its hosts; None: there is none until its latest start.

    A run of higher priority displaces at the first time that its hosts allow; if it cannot, it slips as others do.
    """
    windows = hours.starts(max(due_at_ms, now_ms + LEAD_MS), latest_at_ms, duration_ms)
    if not windows:
        return None
    earliest = windows[0][0]
    if is_free(calendars, booking_class, duration_ms, earliest):
        return Place(earliest)
    displaced = displaceable(calendars, booking_class, duration_ms, earliest, priority)
    if displaced is not None:
        return Place(earliest, frozenset(displaced))
    start = first_start(calendars, booking_class, duration_ms, windows)
    return None if start is None else Place(start)


def first_start(
    calendars: Sequence[NodeCalendar],
    booking_class: BookingClass,
    duration_ms: int,
    windows: Sequence[tuple[int, int]],
) -> int | None:
    """Return the first start in some times, sorted, at which all nodes are free; None: there is none."""
    starts = (first_free(calendars, booking_class, duration_ms, first, last) for first, last in windows)
    return next((start for start in starts if start is not None), None)


__all__ = ["LEAD_MS", "PREPARE_MS", "Place", "find_place", "first_start"]
