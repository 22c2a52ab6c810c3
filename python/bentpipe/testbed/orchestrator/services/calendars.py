"""Calendars of nodes from the database, and bookings back into it."""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, String, and_, cast, func, insert, select, update

from bentpipe.testbed.orchestrator.database.overlaps import LONGEST_BOOKING_MS
from bentpipe.testbed.orchestrator.database.tables import BookingRow, ExperimentRow, NodeRow, RunRow, UserRow
from bentpipe.testbed.orchestrator.services import slots
from bentpipe.testbed.orchestrator.services.slots import Booking, NodeCalendar
from bentpipe.testbed.schemas.experiment_views import Conflict
from bentpipe.testbed.schemas.identifiers import new_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bentpipe.testbed.orchestrator.context import Transaction
    from bentpipe.testbed.schemas.experiment import BookingClass

MARGIN_MS = 60_000
"""A run that starts within this time is not displaced any more [ms]."""
MOVABLE = ("planned", "assigned")
"""States of a run that has not begun."""


def overlapping(nodes: Sequence[str], from_at_ms: int, to_at_ms: int) -> Any:  # noqa: ANN401 - a condition
    """Return the condition for live bookings of nodes that overlap a time; it uses the index."""
    return and_(
        BookingRow.live,
        BookingRow.node_id.in_(nodes),
        BookingRow.from_at_ms > from_at_ms - LONGEST_BOOKING_MS,
        BookingRow.from_at_ms < to_at_ms,
        BookingRow.to_at_ms > from_at_ms,
    )


async def load_calendars(
    transaction: Transaction, nodes: Iterable[str | None], from_at_ms: int, to_at_ms: int
) -> dict[str, NodeCalendar]:
    """Return the calendars of nodes in a time. Who will book locks the nodes before (`lock_nodes`)."""
    names = sorted({node for node in nodes if node is not None})
    calendars = await _empty_calendars(transaction, names)
    statement = (
        select(
            BookingRow.node_id,
            BookingRow.from_at_ms,
            BookingRow.to_at_ms,
            BookingRow.first_lane,
            BookingRow.end_lane,
            BookingRow.run_id,
            BookingRow.priority,
            RunRow.state,
            RunRow.start_at_ms,
        )
        .join(RunRow, RunRow.id == BookingRow.run_id)
        .where(overlapping(names, from_at_ms, to_at_ms), BookingRow.first_lane < BookingRow.end_lane)
        .order_by(BookingRow.node_id, BookingRow.from_at_ms)
    )
    bookings: dict[str, list[Booking]] = {node: [] for node in calendars}
    for row in await transaction.rows(statement):
        may_move = row.state in MOVABLE and row.start_at_ms > transaction.now_ms + MARGIN_MS
        bookings[row.node_id].append(
            Booking(row.from_at_ms, row.to_at_ms, row.first_lane, row.end_lane, row.run_id, row.priority, may_move)
        )
    for node, calendar in calendars.items():
        calendar.fill(bookings[node])
    return calendars


async def load_lanes(
    transaction: Transaction, nodes: Iterable[str | None], from_at_ms: int, to_at_ms: int
) -> dict[str, NodeCalendar]:
    """Return the calendars of nodes in a time, whose bookings name no run: enough to find what is free."""
    names = sorted({node for node in nodes if node is not None})
    calendars = await _empty_calendars(transaction, names)
    times = await load_times(transaction, names, from_at_ms, to_at_ms)
    for node, calendar in calendars.items():
        calendar.fill([Booking(*booked, "") for booked in times.get(node, ())])
    return calendars


async def load_times(
    transaction: Transaction, nodes: Sequence[str], from_at_ms: int, to_at_ms: int
) -> dict[str, list[tuple[int, int, int, int]]]:
    """Return begin, end, first lane and lane after the last of nodes' bookings in a time, sorted, by node.

    The database joins them to one text for each node: a row for each booking would cost four times as much.
    """
    columns = BookingRow.from_at_ms, BookingRow.to_at_ms, BookingRow.first_lane, BookingRow.end_lane
    texts: list[ColumnElement[str]] = [cast(column, String) for column in columns]
    text = reduce(lambda before, number: before + "," + number, texts)
    statement = (
        select(BookingRow.node_id, func.aggregate_strings(text, ",").label("numbers"))
        .where(overlapping(nodes, from_at_ms, to_at_ms), BookingRow.first_lane < BookingRow.end_lane)
        .group_by(BookingRow.node_id)
    )
    times = {}
    for row in await transaction.rows(statement):
        numbers = iter(json.loads(f"[{row.numbers}]"))
        times[row.node_id] = sorted(zip(numbers, numbers, numbers, numbers, strict=True))
    return times


async def _empty_calendars(transaction: Transaction, nodes: Sequence[str]) -> dict[str, NodeCalendar]:
    rows = await transaction.rows(select(NodeRow.id, NodeRow.max_parallel).where(NodeRow.id.in_(nodes)))
    return {row.id: NodeCalendar(row.id, row.max_parallel) for row in rows}


async def lock_nodes(transaction: Transaction, nodes: Iterable[str | None]) -> None:
    """Keep other transactions from booking these nodes until this one ends (PostgreSQL; SQLite has one writer)."""
    names = sorted({node for node in nodes if node is not None})
    await transaction.execute(
        select(NodeRow.id).where(NodeRow.id.in_(names)).order_by(NodeRow.id).with_for_update(key_share=True)
    )


def book(
    calendar: NodeCalendar,
    booking_class: BookingClass,
    run: str,
    end: str,
    start_at_ms: int,
    duration_ms: int,
    priority: int,
    now_ms: int,
) -> dict[str, Any] | None:
    """Take a free slot of a calendar in memory; return the row for the database; None: it is not free."""
    may_move = start_at_ms > now_ms + MARGIN_MS
    booking = slots.book(calendar, booking_class, run, start_at_ms, duration_ms, priority, may_move=may_move)
    if booking is None:
        return None
    return {
        "id": new_id(now_ms),
        "node_id": calendar.node,
        "run_id": run,
        "end": end,
        "from_at_ms": booking.from_at_ms,
        "to_at_ms": booking.to_at_ms,
        "first_lane": booking.first_lane,
        "end_lane": booking.end_lane,
        "live": True,
        "priority": priority,
    }


async def insert_bookings(transaction: Transaction, rows: Sequence[dict[str, Any]]) -> None:
    """Write bookings. The database refuses overlaps."""
    if rows:
        await transaction.execute(insert(BookingRow), list(rows))


async def release(transaction: Transaction, runs: Sequence[str]) -> None:
    """End the bookings of runs."""
    if runs:
        await transaction.execute(
            update(BookingRow).where(BookingRow.run_id.in_(runs), BookingRow.live).values(live=False)
        )


async def conflicts_of(transaction: Transaction, bookings: Sequence[tuple[str, Booking]]) -> tuple[Conflict, ...]:
    """Return bookings of nodes with the names of their experiments."""
    runs = {booking.run for _, booking in bookings}
    if not runs:
        return ()
    statement = (
        select(RunRow.id, ExperimentRow.name, UserRow.name.label("owner"))
        .join(ExperimentRow, ExperimentRow.id == RunRow.experiment_id)
        .join(UserRow, UserRow.id == ExperimentRow.owner_id)
        .where(RunRow.id.in_(runs))
    )
    named = {row.id: row for row in await transaction.rows(statement)}
    return tuple(
        Conflict(
            node=node,
            experiment=named[booking.run].name,
            owner=named[booking.run].owner,
            run=booking.run,
            from_at_ms=booking.from_at_ms,
            to_at_ms=booking.to_at_ms,
            priority=booking.priority,
        )
        for node, booking in bookings
    )
