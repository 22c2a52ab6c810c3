"""The planner: plans become runs and bookings for the next 48 hours, each step in one transaction.

Several planners may work on one PostgreSQL: a plan is locked while it is planned, and its nodes with it. The database
refuses what slips through: overlaps, and two runs of one due time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import InterfaceError, OperationalError

from bentpipe.testbed.orchestrator.database.tables import ExperimentRow, PlanRow, RunEndRow, RunRow
from bentpipe.testbed.orchestrator.services import displacing
from bentpipe.testbed.orchestrator.services.budgets import Usage, load_usage
from bentpipe.testbed.orchestrator.services.calendars import book, insert_bookings, load_calendars, lock_nodes
from bentpipe.testbed.orchestrator.services.due_times import next_due
from bentpipe.testbed.orchestrator.services.host_rules import Hours, load_hours
from bentpipe.testbed.orchestrator.services.notes import note
from bentpipe.testbed.orchestrator.services.placing import LEAD_MS, find_place
from bentpipe.testbed.orchestrator.services.works import reserved_bytes
from bentpipe.testbed.schemas.desired import HORIZON_S
from bentpipe.testbed.schemas.experiment import TestbedExperiment
from bentpipe.testbed.schemas.identifiers import new_id
from bentpipe.testbed.schemas.quantities import at_text, budget_text

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Orchestrator, Transaction
    from bentpipe.testbed.orchestrator.services.slots import NodeCalendar

HORIZON_MS = round(HORIZON_S * 1000)
STEP = 200
"""Due times of one transaction."""
MOST_AHEAD = 1000
"""Most runs of a plan that wait: with more, its horizon is shorter."""
PLANS_PER_TURN = 50
FAILED_MS = 60_000
"""Time after which a plan whose planning failed is tried again [ms]."""
log = logging.getLogger("bentpipe.testbed")


async def plan_turn(orchestrator: Orchestrator) -> int:
    """Plan what is due. Return how many plans had work; 0: nothing is left.

    A plan that has enough runs ahead, or whose planning failed, leaves its place to others.
    """
    now_ms = orchestrator.clock()
    await _forget_ended(orchestrator)
    failed = [plan for plan, again_at_ms in orchestrator.unplannable.items() if again_at_ms > now_ms]
    waiting = _waiting(PlanRow.id, now_ms).correlate(PlanRow).scalar_subquery()
    statement = (
        select(PlanRow.id, PlanRow.node_id)
        .where(
            PlanRow.state == "active",
            PlanRow.next_due_at_ms < now_ms + HORIZON_MS,
            PlanRow.id.not_in(failed),
            waiting < MOST_AHEAD,
        )
        .order_by(PlanRow.next_due_at_ms)
        .limit(PLANS_PER_TURN)
    )
    async with orchestrator.read() as transaction:
        plans = await transaction.rows(statement)
    worked = 0
    for plan in plans:
        try:
            async with orchestrator.write() as transaction:
                worked += await plan_ahead(transaction, plan.id)
        except (OSError, OperationalError, InterfaceError):
            raise  # the disk is full, or the database does not answer: no fault of the plan
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the fault of one plan
            await _note_failure(orchestrator, plan, error)
        else:
            orchestrator.unplannable.pop(plan.id, None)
    return worked


async def _forget_ended(orchestrator: Orchestrator) -> None:
    """Drop failures of plans that have ended."""
    if not orchestrator.unplannable:
        return
    statement = select(PlanRow.id).where(PlanRow.id.in_(list(orchestrator.unplannable)), PlanRow.state == "active")
    async with orchestrator.read() as transaction:
        active = {plan.id for plan in await transaction.rows(statement)}
    for plan in orchestrator.unplannable.keys() - active:
        orchestrator.unplannable.pop(plan, None)


async def _note_failure(orchestrator: Orchestrator, plan: Any, error: Exception) -> None:  # noqa: ANN401 - a row
    """Log that a plan could not be planned, and note it at its node once; others go on."""
    log.error("plan %s could not be planned", plan.id, exc_info=error)
    is_new = plan.id not in orchestrator.unplannable
    orchestrator.unplannable[plan.id] = orchestrator.clock() + FAILED_MS
    if is_new:
        async with orchestrator.write() as transaction:
            text = f"plan {plan.id} could not be planned ({type(error).__name__}); it is tried again each minute"
            await note(transaction, plan.node_id, "agent", text)


@dataclass
class Step:
    """The planning of one plan, in one transaction."""

    transaction: Transaction
    plan: Any
    experiment: TestbedExperiment
    created_at_ms: int
    calendars: dict[str, NodeCalendar]
    hours: Hours
    usage: Usage
    reserved_bytes: int
    fence: int
    runs: list[dict[str, Any]] = field(default_factory=list)
    ends: list[dict[str, Any]] = field(default_factory=list)
    bookings: list[dict[str, Any]] = field(default_factory=list)
    displaced: set[str] = field(default_factory=set)

    @property
    def duration_ms(self) -> int:
        """Longest time of a run [ms]."""
        return round(self.experiment.run.longest_s * 1000)

    def add(self, due_at_ms: int) -> None:
        """Plan the run of a due time."""
        limits, now_ms = self.experiment.limits, self.transaction.now_ms
        latest = due_at_ms + round(limits.slip * 1000)
        earliest = self.usage.first_allowed(max(due_at_ms, now_ms), latest, self.reserved_bytes)
        if limits.bytes is not None and earliest is None:
            self._miss(due_at_ms, latest, f"the budget of {budget_text(limits.bytes)} is used up")
            return
        place = find_place(
            list(self.calendars.values()),
            self.experiment.booking_class,
            self.duration_ms,
            due_at_ms if earliest is None else earliest,
            latest,
            self.experiment.priority,
            now_ms,
            self.hours,
        )
        if place is not None and not self.usage.allows(place.start_at_ms, self.reserved_bytes):
            place = None
        if place is None:
            why = self.hours.refusal(max(due_at_ms, now_ms + LEAD_MS), latest, self.duration_ms) or "no slot is free"
            why = why if latest >= now_ms else "it was due while nothing was planned"
            self._miss(due_at_ms, latest, f"{why} from {at_text(due_at_ms)} to {at_text(latest)}")
            return
        for run in place.displaced:
            for calendar in self.calendars.values():
                calendar.remove(run)
        self.displaced |= place.displaced
        self._place(due_at_ms, place.start_at_ms, latest)

    def _place(self, due_at_ms: int, start_at_ms: int, latest: int) -> None:
        run, plan = new_id(self.transaction.now_ms), self.plan
        self.fence += 1
        self.runs.append(self._row(run, due_at_ms, start_at_ms, latest, "planned", ""))
        for end, node in (("client", plan.node_id), ("server", plan.server_id)):
            if node is None:
                continue
            self.ends.append(end_row(run, end, node, self.fence))
            booking = book(
                self.calendars[node],
                self.experiment.booking_class,
                run,
                end,
                start_at_ms,
                self.duration_ms,
                self.experiment.priority,
                self.transaction.now_ms,
            )
            if booking is not None:
                self.bookings.append(booking)
        self.usage.add(start_at_ms, self.reserved_bytes)

    def _miss(self, due_at_ms: int, latest: int, reason: str) -> None:
        run = new_id(self.transaction.now_ms)
        self.runs.append(self._row(run, due_at_ms, due_at_ms, latest, "missed", reason))

    def _row(self, run: str, due_at_ms: int, start_at_ms: int, latest: int, state: str, reason: str) -> dict[str, Any]:
        return run_row(
            self.plan,
            run,
            due_at_ms=due_at_ms,
            start_at_ms=start_at_ms,
            latest_start_at_ms=latest,
            end_at_ms=start_at_ms + self.duration_ms,
            state=state,
            reason=reason,
            changed_at_ms=self.transaction.now_ms,
            reserved_bytes=self.reserved_bytes,
        )

    @property
    def planned(self) -> int:
        """Number of runs that will take place."""
        return sum(1 for run in self.runs if run["state"] == "planned")


def run_row(plan: Any, run: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - a row of `plans`, columns of `runs`
    """Return a row of `runs` for a first attempt; `fields` replace the defaults."""
    defaults = {
        "id": run,
        "plan_id": plan.id,
        "experiment_id": plan.experiment_id,
        "node_id": plan.node_id,
        "server_id": plan.server_id,
        "attempt": 1,
        "cause": "schedule",
        "first_run_id": run,
        "up_bytes": 0,
        "down_bytes": 0,
        "wants_retry": False,
        "location": None,
        "reason": "",
    }
    return {**defaults, **fields}


def end_row(run: str, end: str, node: str, fence: int) -> dict[str, Any]:
    """Return a row of `run_ends`."""
    return {
        "run_id": run,
        "end": end,
        "node_id": node,
        "state": "planned",
        "reason": "",
        "fence": fence,
        "files": None,
        "commit_hash": None,
    }


async def plan_ahead(transaction: Transaction, plan_id: str) -> bool:
    """Plan up to `STEP` due times of a plan. Return whether there was work."""
    plan = await transaction.first(
        select(*PlanRow.__table__.c).where(PlanRow.id == plan_id).with_for_update(skip_locked=True)
    )
    horizon = transaction.now_ms + HORIZON_MS
    if plan is None or plan.state != "active" or plan.next_due_at_ms is None or plan.next_due_at_ms >= horizon:
        return False
    row = await transaction.first(
        select(ExperimentRow.record, ExperimentRow.created_at_ms, ExperimentRow.until_at_ms, ExperimentRow.work).where(
            ExperimentRow.id == plan.experiment_id
        )
    )
    if row is None:
        return False
    waiting = int(await transaction.scalar(_waiting(plan_id, transaction.now_ms)) or 0)
    if waiting >= MOST_AHEAD:
        return False
    experiment = TestbedExperiment.model_validate(row.record)
    await lock_nodes(transaction, [plan.node_id, plan.server_id])
    slip_ms = round(experiment.limits.slip * 1000)
    step = Step(
        transaction,
        plan,
        experiment,
        row.created_at_ms,
        await load_calendars(
            transaction,
            [plan.node_id, plan.server_id],
            min(plan.next_due_at_ms, transaction.now_ms) - 1,
            horizon + slip_ms + round(experiment.run.longest_s * 1000),
        ),
        await load_hours(transaction, [plan.node_id, plan.server_id]),
        await load_usage(transaction, plan_id, experiment.limits.bytes, plan.next_due_at_ms),
        reserved_bytes(experiment),
        plan.fence,
    )
    due: int | None = _after_a_pause(experiment, row.created_at_ms, plan.next_due_at_ms, transaction.now_ms)
    count, most = plan.runs, experiment.limits.runs
    for _ in range(min(STEP, MOST_AHEAD - waiting)):
        if due is None or due >= horizon:
            break
        if due >= row.until_at_ms or (most is not None and count >= most):
            due = None
            break
        step.add(due)
        count += 1
        due = next_due(experiment.when, row.created_at_ms, due)
    if due is not None and (due >= row.until_at_ms or (most is not None and count >= most)):
        due = None
    await _store(transaction, step, due, count)
    return True


def _after_a_pause(experiment: TestbedExperiment, created_at_ms: int, due: int, now_ms: int) -> int:
    """Return the due time to begin with: those that passed while nothing was planned are left out, but a single one."""
    limit = now_ms - round(experiment.limits.slip * 1000)
    if due >= limit:
        return due
    following = next_due(experiment.when, created_at_ms, limit - 1)
    return due if following is None else following


def _waiting(plan: Any, now_ms: int) -> Any:  # noqa: ANN401 - an id or a column, a statement
    """Return the statement for the number of runs of a plan that wait."""
    return select(func.count()).where(
        RunRow.plan_id == plan, RunRow.state.in_(("planned", "assigned")), RunRow.due_at_ms > now_ms
    )


async def _store(transaction: Transaction, step: Step, due: int | None, count: int) -> None:
    plan = step.plan
    moved = await displacing.take_out(transaction, step.displaced)
    if step.runs:
        await transaction.execute(insert(RunRow), step.runs)
    if step.ends:
        await transaction.execute(insert(RunEndRow), step.ends)
    await insert_bookings(transaction, step.bookings)
    await displacing.place_again(transaction, moved, f"{step.experiment.name} (priority {step.experiment.priority})")
    await transaction.execute(
        update(PlanRow).where(PlanRow.id == plan.id).values(next_due_at_ms=due, runs=count, fence=step.fence)
    )
    if step.planned:
        transaction.touch([plan.node_id, plan.server_id])
