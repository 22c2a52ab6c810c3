"""Which run starts when, from the calendar and what is under way. Pure functions of times [ms since 1970]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from bentpipe.testbed.schemas.desired import Assignment, Desired, Work
    from bentpipe.testbed.schemas.experiment import BookingClass

SERVER_LEAD_MS = 10_000
"""How long before its start a server prepares [ms]."""
CLIENT_LEAD_MS = 5_000
"""How long before its start a client prepares [ms]."""
CATCH_UP_MS = 24 * 3_600_000
"""How late a run may be caught up at most [ms]; chosen here: a day."""


@dataclass(frozen=True)
class Occupant:
    """A run that is under way here: its class, and when it ends at the latest."""

    run: str
    booking_class: BookingClass
    until_ms: float


@dataclass(frozen=True)
class Decision:
    """What becomes of an assignment now."""

    assignment: Assignment
    action: Literal["prepare", "miss"]
    reason: str = ""


def decide(
    wanted: Desired,
    known: Collection[tuple[str, str]],
    now_ms: float,
    *,
    began_at_ms: float,
    busy: Collection[Occupant] = (),
    max_parallel: int = 4,
    max_background: int = 8,
) -> list[Decision]:
    """Return what to do now, in the calendar's order.

    Args:
        wanted: The wanted state.
        known: Runs and ends that have begun or ended here.
        now_ms: The orchestrator's time [ms].
        began_at_ms: When the agent began; runs due before are caught up as their experiment says [ms].
        busy: Runs under way.
        max_parallel: Most runs of class ``normal`` at a time.
        max_background: Most runs of class ``background`` at a time.
    """
    new = [each for each in wanted.assignments if (each.run, each.end) not in known]
    late = [each for each in new if now_ms > each.latest_start_at_ms]
    kept = _caught_up(late, wanted.works, now_ms, began_at_ms)
    decisions = [Decision(each, "miss", _late(each, now_ms, began_at_ms)) for each in late if each.run not in kept]
    occupants = list(busy)
    for each in new:
        is_late = each in late
        if is_late and each.run not in kept:
            continue
        lead_ms = SERVER_LEAD_MS if each.end == "server" else CLIENT_LEAD_MS
        if now_ms < each.start_at_ms - lead_ms:
            continue
        work = wanted.works[each.work]
        begin_ms = max(now_ms, each.start_at_ms)
        until_ms = begin_ms + work.duration_s * 1e3
        if blocker(work.booking_class, occupants, max_parallel, max_background) is None:
            occupants.append(Occupant(each.run, work.booking_class, until_ms))
            decisions.append(Decision(each, "prepare"))
    return decisions


def blocker(
    booking_class: BookingClass, busy: Collection[Occupant], max_parallel: int, max_background: int = 8
) -> Occupant | None:
    """Return the run under way that keeps one of this class from starting; None: it may start.

    Example:
        >>> blocker("normal", [Occupant("a", "exclusive", 9.0)], 4).run
        'a'
        >>> blocker("background", [Occupant("a", "exclusive", 9.0)], 4)
        >>> blocker("background", [Occupant("a", "background", 9.0)], 4, 1).run
        'a'
    """
    if booking_class == "background":
        background = [each for each in busy if each.booking_class == "background"]
        return background[0] if len(background) >= max_background else None
    for each in busy:
        if each.booking_class == "exclusive" or (booking_class == "exclusive" and each.booking_class == "normal"):
            return each
    normal = [each for each in busy if each.booking_class == "normal"]
    return normal[0] if len(normal) >= max_parallel else None


def hold(wanted: Desired, work: Work, now_ms: float, known: Collection[tuple[str, str]] = ()) -> str | None:
    """Return why a run that is not in the calendar (of a trigger) may not start now; None: it may.

    It must end before the next run begins that excludes it: bookings come first.
    """
    if work.booking_class == "background":
        return None
    until_ms = now_ms + work.duration_s * 1e3
    for each in wanted.assignments:
        other = wanted.works[each.work]
        excludes = "exclusive" in (work.booking_class, other.booking_class) and other.booking_class != "background"
        lead_ms = SERVER_LEAD_MS if each.end == "server" else CLIENT_LEAD_MS
        begins_ms = each.start_at_ms - lead_ms
        ends_ms = each.start_at_ms + other.duration_s * 1e3
        if excludes and begins_ms < until_ms and now_ms < ends_ms and (each.run, each.end) not in known:
            return f"{other.experiment} has the node from {_clock(begins_ms)} on"
    return None


def next_change_ms(wanted: Desired, known: Collection[tuple[str, str]], now_ms: float) -> float | None:
    """Return when `decide` may next have something new [ms]; None: not before a new wanted state."""
    times = []
    for each in wanted.assignments:
        if (each.run, each.end) in known:
            continue
        lead_ms = SERVER_LEAD_MS if each.end == "server" else CLIENT_LEAD_MS
        times.append(max(now_ms, each.start_at_ms - lead_ms))
    return min(times, default=None)


def _caught_up(
    late: Collection[Assignment], works: Mapping[str, Work], now_ms: float, began_at_ms: float
) -> frozenset[str]:
    """Return the late runs that are made up for: those that were due while the agent was not there."""
    newest: dict[str, Assignment] = {}
    kept: set[str] = set()
    for each in late:
        catch_up = works[each.work].catch_up
        was_off = each.latest_start_at_ms < began_at_ms
        if not was_off or catch_up == "none" or each.end == "server" or now_ms - each.due_at_ms > CATCH_UP_MS:
            continue
        if catch_up == "all":
            kept.add(each.run)
        elif each.plan not in newest or newest[each.plan].due_at_ms < each.due_at_ms:
            newest[each.plan] = each
    return frozenset(kept | {each.run for each in newest.values()})


def _late(assignment: Assignment, now_ms: float, began_at_ms: float) -> str:
    if assignment.latest_start_at_ms < began_at_ms:
        return "the agent was not running at its time"
    return f"could not start within {(assignment.latest_start_at_ms - assignment.due_at_ms) / 1e3:.0f} s of its time"


def _clock(at_ms: float) -> str:
    from bentpipe.testbed.schemas.quantities import at_text

    return at_text(round(at_ms / 1000) * 1000)
