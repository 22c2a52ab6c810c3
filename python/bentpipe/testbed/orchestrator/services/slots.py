"""Free time in the calendars of nodes: pure functions over bookings in memory.

A booking begins `PREPARE_MS` before its run starts and ends with the run's longest time, so two runs that touch each
other at one node do not disturb each other's preparation.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from bentpipe.testbed.orchestrator.database.tables import ALL_LANES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.schemas.experiment import BookingClass

PREPARE_MS = 10_000
"""Time before a start at which the server end begins to prepare [ms]."""


class Booking(NamedTuple):
    """Time of a node. A tuple: a question reads thousands.

    Attributes:
        from_at_ms: From [ms since 1970].
        to_at_ms: To.
        first_lane: First lane.
        end_lane: Lane after the last; equal to the first: none.
        run: Run.
        priority: Priority of its experiment.
        may_move: Whether a run of higher priority may take its place.
    """

    from_at_ms: int
    to_at_ms: int
    first_lane: int
    end_lane: int
    run: str
    priority: int = 0
    may_move: bool = False

    @property
    def is_exclusive(self) -> bool:
        """Whether it has all lanes."""
        return self.end_lane == ALL_LANES


@dataclass
class NodeCalendar:
    """The bookings of a node.

    Attributes:
        node: Id of the node.
        max_parallel: Its number of lanes.
    """

    node: str
    max_parallel: int
    _bookings: list[Booking] = field(default_factory=list)
    _begins: list[int] = field(default_factory=list)
    """When each of `_bookings` begins, ascending."""
    _longest_ms: int = 0

    def add(self, booking: Booking) -> None:
        """Add a booking; one without lanes is in nobody's way."""
        if booking.first_lane == booking.end_lane:
            return
        place = bisect_right(self._begins, booking.from_at_ms)
        self._begins.insert(place, booking.from_at_ms)
        self._bookings.insert(place, booking)
        self._longest_ms = max(self._longest_ms, booking.to_at_ms - booking.from_at_ms)

    def fill(self, bookings: list[Booking]) -> None:
        """Set all bookings, at once: they are sorted by their begin, and each has lanes."""
        self._bookings, self._begins = bookings, [booking.from_at_ms for booking in bookings]
        self._longest_ms = max((booking.to_at_ms - booking.from_at_ms for booking in bookings), default=0)

    def remove(self, run: str) -> None:
        """Remove the bookings of a run."""
        self._bookings = [booking for booking in self._bookings if booking.run != run]
        self._begins = [booking.from_at_ms for booking in self._bookings]

    def between(self, from_at_ms: int, to_at_ms: int) -> list[Booking]:
        """Return bookings that overlap a time."""
        first = bisect_left(self._begins, from_at_ms - self._longest_ms)
        last = bisect_left(self._begins, to_at_ms)
        return [booking for booking in self._bookings[first:last] if booking.to_at_ms > from_at_ms]

    def lanes(self, booking_class: BookingClass, from_at_ms: int, to_at_ms: int) -> tuple[int, int] | None:
        """Return free lanes for a class in a time; None: there are none."""
        return free_lanes(booking_class, self.between(from_at_ms, to_at_ms), self.max_parallel)

    def blocking(self, booking_class: BookingClass, from_at_ms: int, to_at_ms: int) -> list[Booking]:
        """Return the bookings that are in the way of a class; empty: none are."""
        others = self.between(from_at_ms, to_at_ms)
        return [] if free_lanes(booking_class, others, self.max_parallel) is not None else others

    def starts(
        self, booking_class: BookingClass, duration_ms: int, earliest_at_ms: int, latest_at_ms: int
    ) -> list[tuple[int, int]]:
        """Return the starts at which a lane is free for a whole run: the first and the last of each gap, sorted.

        One pass over the bookings: a question looks at thousands of them.
        """
        if booking_class == "background":
            return [(earliest_at_ms, latest_at_ms)]
        is_exclusive, needed_ms = booking_class == "exclusive", PREPARE_MS + duration_ms
        ends = [earliest_at_ms - PREPARE_MS] * (1 if is_exclusive else self.max_parallel)
        every, gaps = range(len(ends)), []
        for booking in self.between(earliest_at_ms - PREPARE_MS, latest_at_ms + duration_ms):
            from_at_ms, to_at_ms, first_lane, end_lane = booking[:4]
            takes_all = is_exclusive or end_lane == ALL_LANES
            for lane in every if takes_all else every[first_lane:end_lane]:
                if from_at_ms - ends[lane] >= needed_ms:
                    gaps.append((ends[lane] + PREPARE_MS, from_at_ms - duration_ms))
                ends[lane] = max(ends[lane], to_at_ms)
        gaps += [(end + PREPARE_MS, latest_at_ms) for end in ends if end + PREPARE_MS <= latest_at_ms]
        return sorted(gaps)


def free_lanes(booking_class: BookingClass, others: Sequence[Booking], max_parallel: int) -> tuple[int, int] | None:
    """Return lanes that none of the other bookings has; None: there are none.

    Example:
        >>> free_lanes("normal", [Booking(0, 9, 0, 1, "a")], 2), free_lanes("exclusive", [], 2)
        ((1, 2), (0, 1024))
        >>> free_lanes("exclusive", [Booking(0, 9, 0, 1, "a")], 2) is None
        True
    """
    if booking_class == "background":
        return 0, 0
    if booking_class == "exclusive":
        return None if others else (0, ALL_LANES)
    taken: set[int] = set()
    for other in others:
        if other.is_exclusive:
            return None
        taken.update(range(other.first_lane, other.end_lane))
    return next(((lane, lane + 1) for lane in range(max_parallel) if lane not in taken), None)


def first_free(
    calendars: Sequence[NodeCalendar],
    booking_class: BookingClass,
    duration_ms: int,
    earliest_at_ms: int,
    latest_at_ms: int,
) -> int | None:
    """Return the first start at which all nodes are free; None: there is none until `latest_at_ms`."""
    if earliest_at_ms > latest_at_ms:
        return None
    start, is_settled = earliest_at_ms, False
    gaps = [iter(calendar.starts(booking_class, duration_ms, earliest_at_ms, latest_at_ms)) for calendar in calendars]
    last: list[tuple[int, int] | None] = [next(each, None) for each in gaps]
    while not is_settled:
        is_settled = True
        for number, each in enumerate(gaps):
            gap = last[number]
            while gap is not None and gap[1] < start:
                gap = last[number] = next(each, None)
            if gap is None:
                return None
            if gap[0] > start:
                start, is_settled = gap[0], False
    return start


def is_free(calendars: Sequence[NodeCalendar], booking_class: BookingClass, duration_ms: int, start_at_ms: int) -> bool:
    """Return whether all nodes are free for a run."""
    times = start_at_ms - PREPARE_MS, start_at_ms + duration_ms
    return all(calendar.lanes(booking_class, *times) is not None for calendar in calendars)


def displaceable(
    calendars: Sequence[NodeCalendar],
    booking_class: BookingClass,
    duration_ms: int,
    start_at_ms: int,
    priority: int,
) -> set[str] | None:
    """Return the runs of lower priority that a run would displace at a start; None: others are in the way too.

    Equal priority never displaces, and nothing that has begun or starts within the margin (`may_move`).
    """
    runs: set[str] = set()
    times = start_at_ms - PREPARE_MS, start_at_ms + duration_ms
    for calendar in calendars:
        others = calendar.between(*times)
        movable = sorted(
            (other for other in others if other.may_move and other.priority < priority),
            key=lambda other: (other.priority, -other.from_at_ms),
        )
        while free_lanes(booking_class, others, calendar.max_parallel) is None:
            if not movable:
                return None
            chosen = movable.pop(0)
            others.remove(chosen)
            runs.add(chosen.run)
    return runs


def book(
    calendar: NodeCalendar,
    booking_class: BookingClass,
    run: str,
    start_at_ms: int,
    duration_ms: int,
    priority: int,
    *,
    may_move: bool = False,
) -> Booking | None:
    """Take a free slot of a calendar; return the booking; None: it is not free."""
    from_at_ms, to_at_ms = start_at_ms - PREPARE_MS, start_at_ms + duration_ms
    lanes = calendar.lanes(booking_class, from_at_ms, to_at_ms)
    if lanes is None:
        return None
    booking = Booking(from_at_ms, to_at_ms, *lanes, run, priority, may_move)
    calendar.add(booking)
    return booking
