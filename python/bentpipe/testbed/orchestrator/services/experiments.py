"""Experiments: submission, cancellation, extension, their ends."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import IntegrityError

from bentpipe.errors import UserError, shown
from bentpipe.testbed.orchestrator.database.tables import (
    ExperimentRow,
    PlanRow,
    RunRow,
    TriggerRow,
    UserRow,
)
from bentpipe.testbed.orchestrator.services import audit
from bentpipe.testbed.orchestrator.services.closing import end_plans
from bentpipe.testbed.orchestrator.services.due_times import next_due
from bentpipe.testbed.orchestrator.services.idempotency import note_nothing
from bentpipe.testbed.orchestrator.services.placing import LEAD_MS
from bentpipe.testbed.orchestrator.services.refusals import ConflictError, ForbiddenError, NotFoundError
from bentpipe.testbed.orchestrator.services.selection import select_nodes
from bentpipe.testbed.orchestrator.services.works import make_work
from bentpipe.testbed.schemas.experiment import TestbedExperiment
from bentpipe.testbed.schemas.identifiers import new_id
from bentpipe.testbed.schemas.quantities import LONGEST_S, at_text
from bentpipe.testbed.schemas.states import FINAL

if TYPE_CHECKING:
    from typing import Any

    from bentpipe.testbed.orchestrator.context import Orchestrator, Transaction
    from bentpipe.testbed.orchestrator.security.roles import Caller
    from bentpipe.testbed.orchestrator.services.idempotency import Note
    from bentpipe.testbed.schemas.experiment_views import Extension

DEFAULT_MS = 30 * 86_400_000
"""How long an experiment without `until` lasts [ms]."""
MOST_ACTIVE = 200
"""Most active experiments of a user."""


def checked(text: str, now_ms: int) -> TestbedExperiment:
    """Return the checked file of an experiment. Raises `UserError`."""
    experiment = TestbedExperiment.from_yaml(text, "experiment")
    until = experiment.limits.until
    if until is not None and until <= now_ms:
        raise UserError(at_text(until), where="experiment: limits: until", expected="a time in the future")
    if until is not None and until > now_ms + LONGEST_S * 1000:
        raise UserError(at_text(until), where="experiment: limits: until", expected="at most a year from now")
    at = experiment.when.at
    if at is not None and at + experiment.limits.slip * 1000 < now_ms + LEAD_MS and experiment.when.every is None:
        raise UserError(at_text(at), where="experiment: when: at", expected="a time in the future")
    return experiment


def until_of(experiment: TestbedExperiment, now_ms: int) -> int:
    """Return when an experiment ends [ms since 1970]."""
    if experiment.limits.until is not None:
        return experiment.limits.until
    return max(now_ms, experiment.when.at or 0) + DEFAULT_MS


async def submit(orchestrator: Orchestrator, caller: Caller, text: str, note: Note = note_nothing) -> str:
    """Accept an experiment; its first runs are planned at once. Return its id, which `note` gets before the commit.

    Raises:
        UserError: A mistake in the file, or no node fits.
        ConflictError: The caller has an active experiment of that name, or too many.
    """
    experiment = checked(text, orchestrator.clock())
    async with orchestrator.read() as transaction:  # it takes long with many nodes
        selection = await select_nodes(transaction, experiment)
        work, work_hash = await make_work(transaction, experiment, caller.name)
    async with orchestrator.write() as transaction:
        active = await transaction.scalar(
            select(func.count())
            .select_from(ExperimentRow)
            .where(ExperimentRow.owner_id == caller.user, ExperimentRow.state == "active")
        )
        if active >= MOST_ACTIVE:
            raise ConflictError(f"{active} experiments are active; expected fewer than {MOST_ACTIVE}")
        taken = await transaction.scalar(
            select(ExperimentRow.id).where(
                ExperimentRow.owner_id == caller.user,
                ExperimentRow.name == experiment.name,
                ExperimentRow.state == "active",
            )
        )
        if taken is not None:
            raise ConflictError(
                f"an experiment named {experiment.name!r} is active; try another name, or cancel it",
                code="name_taken",
            )
        now_ms = transaction.now_ms
        experiment_id = new_id(now_ms)
        await _insert(
            transaction,
            {
                "id": experiment_id,
                "owner_id": caller.user,
                "name": experiment.name,
                "text": text,
                "record": experiment.to_dict(),
                "work": work.to_dict(),
                "work_hash": work_hash,
                "state": "active",
                "reason": "",
                "priority": experiment.priority,
                "until_at_ms": until_of(experiment, now_ms),
                "created_at_ms": now_ms,
            },
        )
        await note(transaction, experiment_id)
        for client in selection.clients:
            server = selection.servers.get(client.node)
            plan = new_id(now_ms)
            await transaction.execute(
                insert(PlanRow).values(
                    id=plan,
                    experiment_id=experiment_id,
                    node_id=client.node,
                    server_id=None if server is None else server.node,
                    state="active",
                    next_due_at_ms=next_due(experiment.when, now_ms, None),
                    runs=0,
                    key=secrets.token_hex(32),
                    fence=1,
                )
            )
            if experiment.when.trigger is not None:
                await transaction.execute(
                    insert(TriggerRow).values(
                        id=new_id(now_ms),
                        plan_id=plan,
                        node_id=client.node,
                        expression=experiment.when.trigger,
                        state="armed",
                    )
                )
            transaction.touch([client.node, None if server is None else server.node])
        await audit.record(transaction, caller.name, "experiment.submit", experiment_id, name=experiment.name)
        transaction.wakes_planner = True
    return experiment_id


async def _insert(transaction: Transaction, values: dict[str, Any]) -> None:
    try:
        await transaction.execute(insert(ExperimentRow).values(**values))
    except IntegrityError:
        raise ConflictError(f"an experiment named {values['name']!r} is active", code="name_taken") from None


async def find(transaction: Transaction, key: str, user: str | None = None) -> Any:  # noqa: ANN401 - a row
    """Return the row of an experiment by id, else the newest of a name: a name may look like another's id.

    Those of `user` come before those of others.

    Raises `NotFoundError`.
    """
    row = await transaction.first(
        select(*ExperimentRow.__table__.c, UserRow.name.label("owner"))
        .join(UserRow, UserRow.id == ExperimentRow.owner_id)
        .where((ExperimentRow.id == key) | (ExperimentRow.name == key))
        .order_by(
            ExperimentRow.id != key,
            ExperimentRow.owner_id != (user or ""),
            ExperimentRow.state != "active",
            ExperimentRow.created_at_ms.desc(),
        )
        .limit(1)
    )
    if row is None:
        raise NotFoundError(f"no experiment {shown(key)}; try `bentpipe exp ls`")
    return row


async def find_own(transaction: Transaction, caller: Caller, key: str) -> Any:  # noqa: ANN401 - a row
    """Return an experiment that the caller may change. Raises `NotFoundError`, `ForbiddenError`."""
    if not caller.is_admin:
        own = await transaction.first(
            select(ExperimentRow.id).where(
                ExperimentRow.name == key, ExperimentRow.owner_id == caller.user, ExperimentRow.state == "active"
            )
        )
        key = key if own is None else own.id
    row = await find(transaction, key)
    if not caller.is_admin and row.owner_id != caller.user:
        raise ForbiddenError(f"the experiment {shown(row.name)} is another user's; expected an own one")
    return row


async def cancel(orchestrator: Orchestrator, caller: Caller, key: str) -> str:
    """Cancel an experiment and its runs; what runs is stopped. Return its id.

    Raises:
        NotFoundError: No such experiment.
        ForbiddenError: It is another user's.
        ConflictError: It is over.
    """
    async with orchestrator.write() as transaction:
        row = await find_own(transaction, caller, key)
        if row.state != "active":
            raise ConflictError(f"the experiment {shown(row.name)} is over ({row.state})")
        await close(transaction, row.id, "canceled", f"canceled by {caller.name}")
        await audit.record(transaction, caller.name, "experiment.cancel", row.id)
    return str(row.id)


async def close(transaction: Transaction, experiment: str, state: str, reason: str) -> None:
    """End an experiment: its plans, triggers and runs."""
    plans = await transaction.rows(
        select(PlanRow.id, PlanRow.node_id, PlanRow.server_id).where(PlanRow.experiment_id == experiment)
    )
    await end_plans(transaction, plans, reason)
    await transaction.execute(
        update(ExperimentRow).where(ExperimentRow.id == experiment).values(state=state, reason=reason)
    )


async def extend(orchestrator: Orchestrator, caller: Caller, key: str, extension: Extension) -> str:
    """Give an experiment more time or runs. Return its id. Raises as `cancel`, and `UserError`: not more than now."""
    async with orchestrator.write() as transaction:
        row = await find_own(transaction, caller, key)
        if row.state != "active":
            raise ConflictError(f"the experiment {shown(row.name)} is over ({row.state})")
        record = dict(row.record)
        limits = dict(record["limits"])
        until = row.until_at_ms
        if extension.until_at_ms is not None:
            if not transaction.now_ms < extension.until_at_ms <= transaction.now_ms + LONGEST_S * 1000:
                raise UserError(at_text(extension.until_at_ms), where="until", expected="within a year from now")
            until = extension.until_at_ms
            limits["until"] = at_text(until)
        if extension.runs is not None:
            limits["runs"] = extension.runs
        record["limits"] = limits
        experiment = TestbedExperiment.check(record, "experiment")
        await transaction.execute(
            update(ExperimentRow)
            .where(ExperimentRow.id == row.id)
            .values(record=experiment.to_dict(), until_at_ms=until)
        )
        for plan in await transaction.rows(
            select(*PlanRow.__table__.c).where(PlanRow.experiment_id == row.id, PlanRow.state == "active")
        ):
            if plan.next_due_at_ms is None:
                last = await transaction.scalar(
                    select(func.max(RunRow.due_at_ms)).where(RunRow.plan_id == plan.id, RunRow.cause == "schedule")
                )
                due = next_due(experiment.when, row.created_at_ms, last)
                await transaction.execute(update(PlanRow).where(PlanRow.id == plan.id).values(next_due_at_ms=due))
            transaction.touch([plan.node_id, plan.server_id])
        await audit.record(transaction, caller.name, "experiment.extend", row.id, **extension.to_dict())
        transaction.wakes_planner = True
    return str(row.id)


async def end_those_done(orchestrator: Orchestrator) -> int:
    """End experiments that have nothing left: no due time, no armed trigger, no run that has not ended."""
    async with orchestrator.write() as transaction:
        open_plan = (
            select(PlanRow.id)
            .where(PlanRow.experiment_id == ExperimentRow.id, PlanRow.next_due_at_ms.is_not(None))
            .exists()
        )
        open_run = (
            select(RunRow.id)
            .where(
                RunRow.experiment_id == ExperimentRow.id,
                (RunRow.state.not_in((*FINAL, "lost"))) | RunRow.wants_retry,
            )
            .exists()
        )
        armed = (
            select(TriggerRow.id)
            .join(PlanRow, PlanRow.id == TriggerRow.plan_id)
            .where(
                PlanRow.experiment_id == ExperimentRow.id,
                TriggerRow.state == "armed",
                ExperimentRow.until_at_ms > transaction.now_ms,
            )
            .exists()
        )
        over = await transaction.rows(
            select(ExperimentRow.id).where(ExperimentRow.state == "active", ~open_plan, ~open_run, ~armed).limit(100)
        )
        for row in over:
            await close(transaction, row.id, "ended", "all runs are over")
    return len(over)
