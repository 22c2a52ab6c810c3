"""Further attempts of preempted runs: in the first free slot after the node reports quiet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from bentpipe.testbed.orchestrator.database.tables import ExperimentRow, NodeRow, PlanRow, RunEndRow, RunRow
from bentpipe.testbed.orchestrator.services.budgets import load_usage
from bentpipe.testbed.orchestrator.services.calendars import book, insert_bookings, load_calendars, lock_nodes
from bentpipe.testbed.orchestrator.services.displacing import next_fence
from bentpipe.testbed.orchestrator.services.host_rules import load_hours
from bentpipe.testbed.orchestrator.services.placing import LEAD_MS, first_start
from bentpipe.testbed.orchestrator.services.planner import HORIZON_MS, end_row, run_row
from bentpipe.testbed.schemas.experiment import TestbedExperiment
from bentpipe.testbed.schemas.identifiers import derived_id

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Orchestrator, Transaction

RUNS_PER_TURN = 50
QUIET = ("off", "clear")
"""States of the scavenger in which experiments may run."""


async def retry_turn(orchestrator: Orchestrator) -> int:
    """Plan further attempts of preempted runs at nodes that are quiet. Return how many runs were decided."""
    statement = (
        select(RunRow.id, NodeRow.status, NodeRow.lost)
        .join(NodeRow, NodeRow.id == RunRow.node_id)
        .where(RunRow.wants_retry)
        .order_by(RunRow.due_at_ms)
    )
    async with orchestrator.read() as transaction:
        rows = await transaction.rows(statement)
    quiet = [row.id for row in rows if not row.lost and row.status.get("scavenger", "off") in QUIET]
    decided = 0
    for run in quiet[:RUNS_PER_TURN]:
        async with orchestrator.write() as transaction:
            decided += await retry(transaction, run)
    return decided


async def retry(transaction: Transaction, run: str) -> bool:
    """Plan the next attempt of a run, or note why there is none. Return False: no slot now, it waits."""
    row = await transaction.first(
        select(*RunRow.__table__.c, PlanRow.state.label("plan_state"), ExperimentRow.record, ExperimentRow.until_at_ms)
        .join(PlanRow, PlanRow.id == RunRow.plan_id)
        .join(ExperimentRow, ExperimentRow.id == RunRow.experiment_id)
        .where(RunRow.id == run, RunRow.wants_retry)
        .with_for_update(of=RunRow)
    )
    if row is None:
        return False
    experiment = TestbedExperiment.model_validate(row.record)
    reason = _why_not(row, experiment, transaction.now_ms)
    if reason is not None:
        await _decide(transaction, run, f"{row.reason}; not tried again: {reason}")
        return True
    nodes = [node for node in (row.node_id, row.server_id) if node is not None]
    await lock_nodes(transaction, nodes)
    duration_ms = row.end_at_ms - row.start_at_ms
    latest = min(row.until_at_ms, transaction.now_ms + HORIZON_MS)
    calendars = await load_calendars(transaction, nodes, transaction.now_ms - LEAD_MS, latest + duration_ms)
    windows = (await load_hours(transaction, nodes)).starts(transaction.now_ms + LEAD_MS, latest, duration_ms)
    start = first_start(list(calendars.values()), experiment.booking_class, duration_ms, windows)
    usage = await load_usage(transaction, row.plan_id, experiment.limits.bytes, transaction.now_ms)
    if start is None or not usage.allows(start, row.reserved_bytes):
        return False
    await _insert(transaction, row, experiment, start, calendars)
    await _decide(transaction, run, row.reason)
    transaction.touch(nodes)
    return True


def _why_not(row: Any, experiment: TestbedExperiment, now_ms: int) -> str | None:  # noqa: ANN401 - a row
    if experiment.scavenger.mode == "end":
        return "the experiment says scavenger: end"
    if row.attempt >= experiment.scavenger.max_preemptions:
        return f"preempted {row.attempt} times (max_preemptions {experiment.scavenger.max_preemptions})"
    if row.plan_state != "active" or row.until_at_ms <= now_ms:
        return "the experiment is over"
    return None


async def _insert(
    transaction: Transaction,
    row: Any,  # noqa: ANN401 - a row
    experiment: TestbedExperiment,
    start_at_ms: int,
    calendars: dict[str, Any],
) -> None:
    run = derived_id("retry", row.id)
    plan = await transaction.first(select(*PlanRow.__table__.c).where(PlanRow.id == row.plan_id))
    duration_ms = row.end_at_ms - row.start_at_ms
    values = run_row(
        plan,
        run,
        due_at_ms=row.due_at_ms,
        attempt=row.attempt + 1,
        cause="retry",
        first_run_id=row.first_run_id,
        state="planned",
        reason=f"attempt {row.attempt + 1}",
        start_at_ms=start_at_ms,
        latest_start_at_ms=start_at_ms + round(experiment.limits.slip * 1000),
        end_at_ms=start_at_ms + duration_ms,
        changed_at_ms=transaction.now_ms,
        reserved_bytes=row.reserved_bytes,
    )
    await transaction.execute(insert(RunRow).values(**values))
    fence = await next_fence(transaction, row.plan_id)
    bookings = []
    for end, node in (("client", row.node_id), ("server", row.server_id)):
        if node is None:
            continue
        await transaction.execute(insert(RunEndRow).values(**end_row(run, end, node, fence)))
        booking = book(
            calendars[node],
            experiment.booking_class,
            run,
            end,
            start_at_ms,
            duration_ms,
            experiment.priority,
            transaction.now_ms,
        )
        if booking is not None:
            bookings.append(booking)
    await insert_bookings(transaction, bookings)


async def _decide(transaction: Transaction, run: str, reason: str) -> None:
    await transaction.execute(update(RunRow).where(RunRow.id == run).values(wants_retry=False, reason=reason[:500]))
