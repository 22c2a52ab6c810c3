"""What the dashboard's pages show beyond the lists of ``/v1``: bookings, why a run is where it is, firings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sqlalchemy import select
from sqlalchemy.orm import aliased

from bentpipe.errors import UserError, shown
from bentpipe.testbed.orchestrator.database.overlaps import LONGEST_BOOKING_MS
from bentpipe.testbed.orchestrator.database.tables import (
    BookingRow,
    ExperimentRow,
    NodeRow,
    RunEventRow,
    RunRow,
    UserRow,
)
from bentpipe.testbed.orchestrator.services import listings
from bentpipe.testbed.orchestrator.services.availability import free_times
from bentpipe.testbed.orchestrator.services.calendars import conflicts_of, load_calendars, overlapping
from bentpipe.testbed.orchestrator.services.refusals import NotFoundError
from bentpipe.testbed.schemas.page_views import BookingView, RunPlacing, TriggerDetail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.orchestrator.context import Orchestrator, Transaction

MOST_BOOKINGS = 600
"""Bookings of one page of the calendar."""
RAN = ("done", "failed", "preempted")
"""States of runs that are over and took their time of the calendar, or a part of it."""
MOST_FIRINGS = 5
"""Firings of a trigger that are shown."""
LONGEST_TEXT = 20_000
"""Bytes of a log that a page shows."""
WEEK_MS = 7 * 86_400_000


async def bookings(
    orchestrator: Orchestrator, nodes: Sequence[str], from_at_ms: int, to_at_ms: int
) -> tuple[BookingView, ...]:
    """Return bookings and past runs of nodes (ids) in a time; one more than `MOST_BOOKINGS` if there are more."""
    statement = (
        select(
            NodeRow.name.label("node"),
            BookingRow.run_id,
            BookingRow.end,
            ExperimentRow.name.label("experiment"),
            UserRow.name.label("owner"),
            ExperimentRow.record,
            RunRow.state,
            BookingRow.from_at_ms,
            BookingRow.to_at_ms,
        )
        .join(NodeRow, NodeRow.id == BookingRow.node_id)
        .join(RunRow, RunRow.id == BookingRow.run_id)
        .join(ExperimentRow, ExperimentRow.id == RunRow.experiment_id)
        .join(UserRow, UserRow.id == ExperimentRow.owner_id)
        .where(overlapping(list(nodes), from_at_ms, to_at_ms))
        .order_by(BookingRow.from_at_ms, BookingRow.id)
        .limit(MOST_BOOKINGS + 1)
    )
    async with orchestrator.read() as transaction:
        rows = await transaction.rows(statement)
        past = await _past(transaction, nodes, from_at_ms, to_at_ms)
    live = [
        BookingView(
            node=row.node,
            run=row.run_id,
            end=row.end,
            experiment=row.experiment,
            owner=row.owner,
            booking_class=row.record["class"],
            state=row.state,
            from_at_ms=row.from_at_ms,
            to_at_ms=row.to_at_ms,
        )
        for row in rows
    ]
    return tuple(sorted([*live, *past], key=lambda each: each.from_at_ms)[: MOST_BOOKINGS + 1])


def _ends(node: str, server: str | None) -> list[tuple[Literal["client", "server"], str]]:
    return [("client", node)] if server is None else [("client", node), ("server", server)]


async def _past(transaction: Transaction, nodes: Sequence[str], from_at_ms: int, to_at_ms: int) -> list[BookingView]:
    """Return what runs took that are over, at both ends: their bookings hold no more."""
    server = aliased(NodeRow)
    statement = (
        select(
            RunRow.id,
            NodeRow.name.label("node"),
            server.id.label("server_id"),
            server.name.label("server"),
            ExperimentRow.name.label("experiment"),
            UserRow.name.label("owner"),
            ExperimentRow.record,
            RunRow.state,
            RunRow.start_at_ms,
            RunRow.end_at_ms,
            RunRow.changed_at_ms,
        )
        .join(NodeRow, NodeRow.id == RunRow.node_id)
        .outerjoin(server, server.id == RunRow.server_id)
        .join(ExperimentRow, ExperimentRow.id == RunRow.experiment_id)
        .join(UserRow, UserRow.id == ExperimentRow.owner_id)
        .where(
            RunRow.node_id.in_(list(nodes)),
            RunRow.start_at_ms > from_at_ms - LONGEST_BOOKING_MS,
            RunRow.start_at_ms < to_at_ms,
            RunRow.end_at_ms > from_at_ms,
            RunRow.state.in_(RAN),
        )
        .order_by(RunRow.start_at_ms.desc())
        .limit(MOST_BOOKINGS)
    )
    return [
        BookingView(
            node=node,
            run=row.id,
            end=end,
            experiment=row.experiment,
            owner=row.owner,
            booking_class=row.record["class"],
            state=row.state,
            from_at_ms=row.start_at_ms,
            to_at_ms=max(row.start_at_ms + 1, min(row.end_at_ms, row.changed_at_ms)),
            live=False,
        )
        for row in await transaction.rows(statement)
        for end, node in _ends(row.node, row.server if row.server_id in nodes else None)
    ]


async def placing(orchestrator: Orchestrator, run: str) -> RunPlacing:
    """Return why a run is at its place. Raises `NotFoundError`."""
    async with orchestrator.read() as transaction:
        row = await transaction.first(
            select(*RunRow.__table__.c, ExperimentRow.record, ExperimentRow.priority, NodeRow.name)
            .join(ExperimentRow, ExperimentRow.id == RunRow.experiment_id)
            .join(NodeRow, NodeRow.id == RunRow.node_id)
            .where(RunRow.id == run)
        )
        if row is None:
            raise NotFoundError(f"no run {shown(run)}; try `bentpipe exp ls`")
        until_at_ms = row.due_at_ms + max(1, row.end_at_ms - row.start_at_ms)
        calendars = await load_calendars(transaction, [row.node_id, row.server_id], row.due_at_ms, until_at_ms)
        names = {
            each.id: each.name
            for each in await transaction.rows(select(NodeRow.id, NodeRow.name).where(NodeRow.id.in_(calendars)))
        }
        others = [
            (names[node], booking)
            for node, calendar in calendars.items()
            for booking in calendar.between(row.due_at_ms, until_at_ms)
            if booking.run != run
        ]
        conflicts = await conflicts_of(transaction, others)
        now_ms = transaction.now_ms
    length_ms = max(1, row.end_at_ms - row.start_at_ms)
    free = (await free_times(orchestrator, [row.name], now_ms, now_ms + WEEK_MS, length_ms))[row.name]
    return RunPlacing(
        booking_class=row.record["class"],
        priority=row.priority,
        slip_s=max(0, row.latest_start_at_ms - row.due_at_ms) / 1000,
        end_at_ms=row.end_at_ms,
        changed_at_ms=row.changed_at_ms,
        conflicts=conflicts,
        next_free_at_ms=free[0][0] if free else None,
    )


async def triggers(orchestrator: Orchestrator, after: str, limit: int) -> tuple[tuple[TriggerDetail, ...], str | None]:
    """Return triggers, newest first, with their last firings and absent signals; and the next page's `after`."""
    page = await listings.list_triggers(orchestrator, after, limit)
    async with orchestrator.read() as transaction:
        rows = await transaction.rows(
            select(NodeRow.name, NodeRow.report).where(NodeRow.name.in_({trigger.node for trigger in page.items}))
        )
    signals = {row.name: set(row.report.get("signals", ())) for row in rows}
    details = []
    for trigger in page.items:
        firings = (await listings.list_firings(orchestrator, trigger.id, 0, MOST_FIRINGS)).items
        absent = sorted(_signals(trigger.expression) - signals.get(trigger.node, set()))
        details.append(TriggerDetail(trigger=trigger, absent=tuple(absent), firings=firings))
    return tuple(details), page.next


def _signals(expression: str) -> set[str]:
    from bentpipe.triggers.expression import compile_expression

    try:
        return set(compile_expression(expression).signals)
    except UserError:  # of a version with another language
        return set()


async def durations_s(orchestrator: Orchestrator, runs: Sequence[str]) -> dict[str, float]:
    """Return how long runs ran at their client's end, by id [s]; those of which it is unknown are left out."""
    begins: dict[str, int] = {}
    durations: dict[str, float] = {}
    async with orchestrator.read() as transaction:
        for first in range(0, len(runs), 500):
            statement = (
                select(RunEventRow.run_id, RunEventRow.at_ms, RunEventRow.body)
                .where(RunEventRow.run_id.in_(runs[first : first + 500]), RunEventRow.kind == "state")
                .order_by(RunEventRow.at_ms, RunEventRow.seq)
            )
            for row in await transaction.rows(statement):
                if row.body.get("end") != "client":
                    continue
                if row.body.get("state") == "running":
                    begins.setdefault(row.run_id, row.at_ms)
                elif row.run_id in begins:
                    durations.setdefault(row.run_id, (row.at_ms - begins[row.run_id]) / 1000)
    return durations


async def text_of(orchestrator: Orchestrator, location: str, path: str) -> str | None:
    """Return the first part of a text file of a result; None: it is not in the store."""
    text = b""
    try:
        async for part in orchestrator.storage.stream(f"{location}/{path}"):
            text += part
            if len(text) >= LONGEST_TEXT:
                break
    except FileNotFoundError:
        return None
    return text[:LONGEST_TEXT].decode("utf-8", "replace")
