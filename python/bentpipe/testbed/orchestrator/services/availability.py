"""When nodes are free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pydantic_core
from sqlalchemy import select

from bentpipe.errors import UserError, shown
from bentpipe.testbed.orchestrator.database.tables import ALL_LANES, NodeRow
from bentpipe.testbed.orchestrator.services.calendars import load_times
from bentpipe.testbed.orchestrator.services.refusals import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bentpipe.testbed.orchestrator.context import Orchestrator

LONGEST_QUERY_MS = 31 * 86_400_000
"""Longest time of a question for availability [ms]."""


async def free_times(
    orchestrator: Orchestrator, nodes: Sequence[str], from_at_ms: int, to_at_ms: int, least_ms: int
) -> dict[str, list[tuple[int, int, int]]]:
    """Return when nodes have free lanes: begin, end and number of lanes of each interval, by name of the node.

    Args:
        orchestrator: The orchestrator.
        nodes: Names of nodes.
        from_at_ms: From.
        to_at_ms: To.
        least_ms: Shortest time with a free lane that is of interest [ms].

    Raises:
        UserError: A time that is too long, or ends before it begins.
        NotFoundError: No such node.
    """
    if not from_at_ms < to_at_ms <= from_at_ms + LONGEST_QUERY_MS:
        raise UserError(
            f"{to_at_ms - from_at_ms} ms", where="to_at_ms", expected="later than from_at_ms, by 31 days at most"
        )
    async with orchestrator.read() as transaction:
        statement = select(NodeRow.id, NodeRow.name, NodeRow.max_parallel)
        known = await transaction.rows(statement.where(NodeRow.name.in_(nodes)).order_by(NodeRow.name))
        if missing := sorted(set(nodes) - {node.name for node in known}):
            raise NotFoundError(f"no node {shown(missing[0])}; try `bentpipe node ls`")
        booked = await load_times(transaction, [node.id for node in known], from_at_ms, to_at_ms)
    return {
        node.name: long_enough(
            free_intervals(booked.get(node.id, ()), node.max_parallel, from_at_ms, to_at_ms), least_ms
        )
        for node in known
    }


def long_enough(intervals: Iterable[tuple[int, int, int]], least_ms: int) -> list[tuple[int, int, int]]:
    """Return the intervals of free times of that length; those that touch are one time.

    Example:
        >>> long_enough([(0, 10, 2), (10, 20, 1), (30, 35, 2)], 15)
        [(0, 10, 2), (10, 20, 1)]
    """
    kept: list[tuple[int, int, int]] = []
    together: list[tuple[int, int, int]] = []
    for interval in intervals:
        if together and together[-1][1] != interval[0]:
            kept += together if together[-1][1] - together[0][0] >= least_ms else []
            together = []
        together.append(interval)
    if together and together[-1][1] - together[0][0] >= least_ms:
        kept += together
    return kept


def to_json(free: Mapping[str, Iterable[tuple[int, int, int]]]) -> bytes:
    """Return free times as an `AvailabilityPage` in JSON, without a record for each of thousands of intervals.

    Example:
        >>> to_json({"attic": [(0, 10, 2)]})
        b'{"items":[{"node":"attic","from_at_ms":0,"to_at_ms":10,"lanes":2}],"next":null}'
    """
    items = [
        {"node": name, "from_at_ms": begin, "to_at_ms": end, "lanes": lanes}
        for name, intervals in free.items()
        for begin, end, lanes in intervals
    ]
    return pydantic_core.to_json({"items": items, "next": None})


def free_intervals(
    bookings: Iterable[Sequence[int]], max_parallel: int, from_at_ms: int, to_at_ms: int
) -> Iterator[tuple[int, int, int]]:
    """Yield intervals with free lanes, and how many: a sweep over begins and ends.

    Args:
        bookings: Begin, end, first lane and lane after the last of each, in any order.
        max_parallel: Lanes of the node.
        from_at_ms: From.
        to_at_ms: To.

    Example:
        >>> list(free_intervals([(10, 20, 0, 1)], 2, 0, 30))
        [(0, 10, 2), (10, 20, 1), (20, 30, 2)]
    """
    changes: list[tuple[int, int]] = []
    for booked_from, booked_to, first_lane, end_lane in bookings:
        lanes = max_parallel if end_lane == ALL_LANES else end_lane - first_lane
        changes.append((booked_from, -lanes))
        changes.append((booked_to, lanes))
    changes.sort()
    free, begin = max_parallel, from_at_ms
    for at_ms, step in changes:
        if at_ms > begin:
            if at_ms >= to_at_ms:
                break
            if free > 0:
                yield begin, at_ms, free
            begin = at_ms
        free += step
    if free > 0:
        yield begin, to_at_ms, free
