"""Runs that a node made itself: a trigger fired, or a preempted run is tried again without the orchestrator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update
from sqlalchemy.exc import IntegrityError

from bentpipe.testbed.orchestrator.database.engines import is_overlap
from bentpipe.testbed.orchestrator.database.tables import ExperimentRow, PlanRow, RunEndRow, RunRow
from bentpipe.testbed.orchestrator.services.agent_limits import limit_reached
from bentpipe.testbed.orchestrator.services.calendars import (
    MARGIN_MS,
    book,
    insert_bookings,
    load_calendars,
    lock_nodes,
    release,
)
from bentpipe.testbed.orchestrator.services.desired_states import ARMING_FENCE
from bentpipe.testbed.orchestrator.services.notes import note
from bentpipe.testbed.orchestrator.services.planner import end_row, run_row
from bentpipe.testbed.orchestrator.services.works import reserved_bytes
from bentpipe.testbed.schemas.experiment import TestbedExperiment
from bentpipe.testbed.schemas.identifiers import derived_id
from bentpipe.testbed.schemas.states import FINAL

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Transaction
    from bentpipe.testbed.schemas.agent_protocol import RunEvent

_EXPERIMENT = (ExperimentRow.record, ExperimentRow.work, ExperimentRow.priority, ExperimentRow.created_at_ms)


async def create_run(transaction: Transaction, node: str, event: RunEvent) -> bool:
    """Create the run of an event, once. Return False: it is not this node's to make, and has to stop."""
    plan = await transaction.first(
        select(*PlanRow.__table__.c, *_EXPERIMENT)
        .join(ExperimentRow, ExperimentRow.id == PlanRow.experiment_id)
        .where(PlanRow.id == event.plan, PlanRow.node_id == node)
        .with_for_update(of=PlanRow)  # its runs are counted
    )
    if plan is None:
        return False
    first_run = await _first_run(transaction, plan, event)
    if first_run is None:
        return False
    present = await transaction.first(select(RunRow.id, RunRow.state).where(RunRow.id == event.run))
    if present is not None:
        return await _follow(transaction, plan, event, present)
    limit = await limit_reached(transaction, plan, event)
    if limit is not None:
        await note(transaction, node, "agent", f"a run that the node made was refused: {limit}")
        return False
    await _insert(transaction, plan, event, first_run)
    return bool(plan.state == "active")  # else it is recorded, and stops: the experiment is over


async def _first_run(transaction: Transaction, plan: Any, event: RunEvent) -> str | None:  # noqa: ANN401 - a row
    """Return the first attempt of an event's run; None: its ids, fence or cause do not fit."""
    if event.cause == "retry":
        return await _first_of_retry(transaction, event)
    is_fitting = (
        event.firing is not None
        and event.run == derived_id("run", event.plan, event.firing)
        and event.fence == ARMING_FENCE
        and event.attempt == 1
        and plan.record["when"].get("trigger") is not None
    )
    return event.run if is_fitting else None


async def _first_of_retry(transaction: Transaction, event: RunEvent) -> str | None:
    """Return the first run of a retry; None: the event's ids or its fence do not fit."""
    before = await transaction.first(
        select(RunRow.id, RunRow.first_run_id, RunEndRow.fence)
        .join(RunEndRow, (RunEndRow.run_id == RunRow.id) & (RunEndRow.end == "client"))
        .where(
            RunRow.plan_id == event.plan,
            RunRow.due_at_ms == event.due_at_ms,
            RunRow.attempt == event.attempt - 1,
        )
    )
    if before is None or event.run != derived_id("retry", before.id) or event.fence != before.fence:
        return None
    return str(before.first_run_id)


async def _follow(transaction: Transaction, plan: Any, event: RunEvent, present: Any) -> bool:  # noqa: ANN401 - rows
    """A run that both made, or an event that came twice: the node's start counts."""
    if present.state in FINAL:
        return True
    if present.state in ("planned", "assigned"):
        duration_ms = _duration_ms(plan)
        await release(transaction, [event.run])
        await transaction.execute(
            update(RunRow)
            .where(RunRow.id == event.run)
            .values(start_at_ms=event.start_at_ms, end_at_ms=event.start_at_ms + duration_ms)
        )
        await transaction.execute(
            update(RunEndRow).where(RunEndRow.run_id == event.run, RunEndRow.end == "client").values(fence=event.fence)
        )
        await transaction.execute(
            update(RunEndRow).where(RunEndRow.run_id == event.run, RunEndRow.end == "server").values(fence=ARMING_FENCE)
        )
        await _book(transaction, plan, event)
        transaction.touch([plan.node_id, plan.server_id])
    return True


def _duration_ms(plan: Any) -> int:  # noqa: ANN401 - a row
    return round(float(plan.work["duration_s"]) * 1000)


async def _insert(transaction: Transaction, plan: Any, event: RunEvent, first_run: str) -> None:  # noqa: ANN401 - a row
    duration_ms = _duration_ms(plan)
    row = run_row(
        plan,
        event.run,
        due_at_ms=event.due_at_ms,
        attempt=event.attempt,
        cause=event.cause,
        first_run_id=first_run,
        state="assigned" if plan.state == "active" else "canceled",
        reason="" if plan.state == "active" else "the experiment was over",
        start_at_ms=event.start_at_ms,
        latest_start_at_ms=event.start_at_ms,
        end_at_ms=event.start_at_ms + duration_ms,
        changed_at_ms=transaction.now_ms,
        reserved_bytes=reserved_bytes(TestbedExperiment.model_validate(plan.record)),
    )
    await transaction.execute(insert(RunRow).values(**row))
    ends = [end_row(event.run, "client", plan.node_id, event.fence)]
    if plan.server_id is not None:
        ends.append(end_row(event.run, "server", plan.server_id, ARMING_FENCE))
    for end in ends:
        end["state"] = row["state"]
        end["reason"] = row["reason"]
    await transaction.execute(insert(RunEndRow), ends)
    if event.cause == "trigger":
        await transaction.execute(update(PlanRow).where(PlanRow.id == plan.id).values(runs=PlanRow.runs + 1))
    else:
        await transaction.execute(
            update(RunRow)
            .where(RunRow.first_run_id == first_run, RunRow.attempt < event.attempt)
            .values(wants_retry=False)
        )
    if plan.state == "active":
        await _book(transaction, plan, event)
    transaction.touch([plan.node_id, plan.server_id])


async def _book(transaction: Transaction, plan: Any, event: RunEvent) -> None:  # noqa: ANN401 - a row
    """Note the time of a run that has begun. Where another booking holds it, the run is without one: it took place."""
    if event.start_at_ms > transaction.now_ms + MARGIN_MS:
        return  # a node makes runs that begin now: who says otherwise takes no time of a server node that others share
    duration_ms = _duration_ms(plan)
    nodes = [node for node in (plan.node_id, plan.server_id) if node is not None]
    await lock_nodes(transaction, nodes)
    begin, end_at_ms = event.start_at_ms - 60_000, event.start_at_ms + duration_ms
    calendars = await load_calendars(transaction, nodes, begin, end_at_ms)
    rows = []
    for end, node in (("client", plan.node_id), ("server", plan.server_id)):
        if node is None:
            continue
        booking = book(
            calendars[node],
            plan.record["class"],
            event.run,
            end,
            event.start_at_ms,
            duration_ms,
            plan.priority,
            transaction.now_ms,
        )
        if booking is not None:
            rows.append(booking)
    try:
        async with transaction.connection.begin_nested():
            await insert_bookings(transaction, rows)
    except IntegrityError as error:
        if not is_overlap(error):
            raise
