"""Move runs that one of higher priority displaced: to the next free slot within their slip, or they are missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from bentpipe.testbed.orchestrator.database.tables import ExperimentRow, PlanRow, RunEndRow, RunRow
from bentpipe.testbed.orchestrator.services.calendars import (
    MOVABLE,
    book,
    insert_bookings,
    load_calendars,
    lock_nodes,
    release,
)
from bentpipe.testbed.orchestrator.services.host_rules import load_hours
from bentpipe.testbed.orchestrator.services.placing import LEAD_MS, first_start
from bentpipe.testbed.schemas.quantities import at_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from bentpipe.testbed.orchestrator.context import Transaction
    from bentpipe.testbed.schemas.experiment import BookingClass


async def take_out(transaction: Transaction, runs: Collection[str]) -> Sequence[Any]:
    """End the bookings of displaced runs; return their rows, which nobody changes until the transaction ends."""
    if not runs:
        return []
    statement = (
        select(*RunRow.__table__.c, ExperimentRow.record, ExperimentRow.priority, ExperimentRow.name)
        .join(ExperimentRow, ExperimentRow.id == RunRow.experiment_id)
        .where(RunRow.id.in_(runs), RunRow.state.in_(MOVABLE))  # else it was canceled or began meanwhile
        .order_by(ExperimentRow.priority.desc(), RunRow.due_at_ms)
        .with_for_update(of=RunRow)
    )
    rows = await transaction.rows(statement)
    await release(transaction, sorted(row.id for row in rows))
    return rows


async def place_again(transaction: Transaction, rows: Sequence[Any], by: str) -> None:
    """Give displaced runs other slots, with a new fence; `by` names who displaced them."""
    for row in rows:
        nodes = [node for node in (row.node_id, row.server_id) if node is not None]
        await lock_nodes(transaction, nodes)
        booking_class: BookingClass = row.record["class"]
        duration_ms = row.end_at_ms - row.start_at_ms
        calendars = await load_calendars(
            transaction, nodes, row.due_at_ms - LEAD_MS, row.latest_start_at_ms + duration_ms
        )
        earliest = max(row.due_at_ms, transaction.now_ms + LEAD_MS)
        hours = await load_hours(transaction, nodes)
        windows = hours.starts(earliest, row.latest_start_at_ms, duration_ms)
        start = first_start(list(calendars.values()), booking_class, duration_ms, windows)
        transaction.touch(nodes)
        if start is None:
            why = hours.refusal(earliest, row.latest_start_at_ms, duration_ms) or "no slot is free"
            reason = f"displaced by {by}; {why} until {at_text(row.latest_start_at_ms)}"
            await _set(transaction, row.id, {"state": "missed", "reason": reason})
            continue
        fence = await next_fence(transaction, row.plan_id)
        await transaction.execute(
            update(RunRow)
            .where(RunRow.id == row.id)
            .values(
                start_at_ms=start,
                end_at_ms=start + duration_ms,
                state="planned",
                reason=f"moved: displaced by {by}",
                changed_at_ms=transaction.now_ms,
            )
        )
        await transaction.execute(
            update(RunEndRow).where(RunEndRow.run_id == row.id).values(state="planned", fence=fence)
        )
        bookings = [
            book(calendars[node], booking_class, row.id, end, start, duration_ms, row.priority, transaction.now_ms)
            for end, node in (("client", row.node_id), ("server", row.server_id))
            if node is not None
        ]
        await insert_bookings(transaction, [booking for booking in bookings if booking is not None])


async def next_fence(transaction: Transaction, plan: str) -> int:
    """Return a fence of a plan that none had before."""
    await transaction.execute(update(PlanRow).where(PlanRow.id == plan).values(fence=PlanRow.fence + 1))
    return int(await transaction.scalar(select(PlanRow.fence).where(PlanRow.id == plan)))


async def _set(transaction: Transaction, run: str, fields: dict[str, Any]) -> None:
    await transaction.execute(update(RunRow).where(RunRow.id == run).values(changed_at_ms=transaction.now_ms, **fields))
    await transaction.execute(update(RunEndRow).where(RunEndRow.run_id == run).values(**fields))
