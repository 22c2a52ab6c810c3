"""Experiments, runs, triggers and the audit as users see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select
from sqlalchemy.orm import aliased

from bentpipe.errors import shown
from bentpipe.testbed.orchestrator.database.tables import (
    AuditRow,
    ExperimentRow,
    FiringRow,
    NodeRow,
    PlanRow,
    RunEndRow,
    RunEventRow,
    RunRow,
    TriggerRow,
    UserRow,
)
from bentpipe.testbed.orchestrator.services.experiments import find
from bentpipe.testbed.orchestrator.services.nodes import named
from bentpipe.testbed.orchestrator.services.refusals import NotFoundError
from bentpipe.testbed.schemas.experiment_views import (
    EventView,
    ExperimentDetail,
    ExperimentPage,
    ExperimentView,
    FiringPage,
    FiringView,
    RunDetail,
    RunEndView,
    RunPage,
    RunView,
    TriggerPage,
    TriggerView,
)
from bentpipe.testbed.schemas.views import AuditPage, AuditView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.orchestrator.context import Orchestrator, Transaction

MOST_EVENTS = 1000
"""Events of a run that are shown."""


async def list_experiments(
    orchestrator: Orchestrator, after: str, limit: int, state: str | None = None, owner: str | None = None
) -> ExperimentPage:
    """List experiments, newest first."""
    statement = (
        select(*ExperimentRow.__table__.c, UserRow.name.label("owner"))
        .join(UserRow, UserRow.id == ExperimentRow.owner_id)
        .order_by(ExperimentRow.id.desc())
        .limit(limit + 1)
    )
    if after:
        statement = statement.where(ExperimentRow.id < after)
    if state is not None:
        statement = statement.where(ExperimentRow.state == state)
    if owner is not None:
        statement = statement.where(UserRow.name == owner)
    async with orchestrator.read() as transaction:
        rows = await transaction.rows(statement)
        items = await _experiments(transaction, rows[:limit])
    return ExperimentPage(items=items, next=items[-1].id if len(rows) > limit else None)


async def _experiments(transaction: Transaction, rows: Sequence[Any]) -> tuple[ExperimentView, ...]:
    names = [row.id for row in rows]
    nodes: dict[str, list[str]] = {}
    for row in await transaction.rows(
        select(PlanRow.experiment_id, NodeRow.name)
        .join(NodeRow, NodeRow.id == PlanRow.node_id)
        .where(PlanRow.experiment_id.in_(names))
        .order_by(NodeRow.name)
    ):
        nodes.setdefault(row.experiment_id, []).append(row.name)
    counts: dict[str, dict[str, int]] = {}
    for row in await transaction.rows(
        select(RunRow.experiment_id, RunRow.state, func.count().label("runs"))
        .where(RunRow.experiment_id.in_(names))
        .group_by(RunRow.experiment_id, RunRow.state)
    ):
        counts.setdefault(row.experiment_id, {})[row.state] = row.runs
    return tuple(_experiment(row, nodes.get(row.id, []), counts.get(row.id, {})) for row in rows)


def _experiment(row: Any, nodes: Sequence[str], counts: dict[str, int]) -> ExperimentView:  # noqa: ANN401 - a row
    return ExperimentView(
        id=row.id,
        name=row.name,
        owner=row.owner,
        state=row.state,
        reason=row.reason,
        created_at_ms=row.created_at_ms,
        until_at_ms=row.until_at_ms,
        priority=row.priority,
        booking_class=row.record["class"],
        nodes=tuple(nodes),
        runs=counts,
    )


async def show_experiment(orchestrator: Orchestrator, key: str, user: str | None = None) -> ExperimentDetail:
    """Return an experiment by id or name, of that name first one of `user`. Raises `NotFoundError`."""
    async with orchestrator.read() as transaction:
        row = await find(transaction, key, user)
        (view,) = await _experiments(transaction, [row])
    return ExperimentDetail(text=row.text, **{name: getattr(view, name) for name in type(view).model_fields})


_SERVER = aliased(NodeRow)
_RUNS = (
    select(
        *RunRow.__table__.c,
        NodeRow.name.label("node"),
        _SERVER.name.label("server"),
        ExperimentRow.name.label("experiment_name"),
    )
    .join(NodeRow, NodeRow.id == RunRow.node_id)
    .outerjoin(_SERVER, _SERVER.id == RunRow.server_id)
    .join(ExperimentRow, ExperimentRow.id == RunRow.experiment_id)
)


def _run_fields(row: Any) -> dict[str, Any]:  # noqa: ANN401 - a row
    return {
        "id": row.id,
        "experiment": row.experiment_id,
        "experiment_name": row.experiment_name,
        "plan": row.plan_id,
        "node": row.node,
        "server": row.server,
        "due_at_ms": row.due_at_ms,
        "start_at_ms": row.start_at_ms,
        "changed_at_ms": row.changed_at_ms,
        "attempt": row.attempt,
        "cause": row.cause,
        "state": row.state,
        "reason": row.reason,
        "up_bytes": row.up_bytes,
        "down_bytes": row.down_bytes,
        "location": row.location,
    }


async def list_runs(
    orchestrator: Orchestrator,
    after: str,
    limit: int,
    *,
    experiment: str | None = None,
    node: str | None = None,
    state: str | None = None,
    from_at_ms: int | None = None,
    to_at_ms: int | None = None,
    newest: bool = False,
    user: str | None = None,
) -> RunPage:
    """List runs by start. `after` is ``<start>-<id>`` of the run before. Raises `NotFoundError`.

    With `newest` the last ones come first, and `after` has no effect. A name of an experiment is first one of `user`.
    """
    statement = _RUNS.order_by(RunRow.start_at_ms, RunRow.id).limit(limit + 1)
    if newest:
        statement = _RUNS.order_by(RunRow.start_at_ms.desc(), RunRow.id.desc()).limit(limit + 1)
        after = ""
    begin, _, last = after.partition("-")
    if after:
        at_ms = int(begin) if begin.isascii() and begin.isdigit() and len(begin) < 16 else 0
        statement = statement.where(
            (RunRow.start_at_ms > at_ms) | ((RunRow.start_at_ms == at_ms) & (RunRow.id > last))
        ).where(RunRow.start_at_ms >= at_ms)
    if state is not None:
        statement = statement.where(RunRow.state == state)
    if from_at_ms is not None:
        statement = statement.where(RunRow.start_at_ms >= from_at_ms)
    if to_at_ms is not None:
        statement = statement.where(RunRow.start_at_ms < to_at_ms)
    async with orchestrator.read() as transaction:
        if experiment is not None:
            statement = statement.where(RunRow.experiment_id == (await find(transaction, experiment, user)).id)
        if node is not None:
            key = await transaction.scalar(select(NodeRow.id).where(named(node)).order_by(NodeRow.id != node))
            if key is None:
                raise NotFoundError(f"no node {shown(node)}; try `bentpipe node ls`")
            statement = statement.where(RunRow.node_id == key)
        rows = await transaction.rows(statement)
    items = tuple(RunView(**_run_fields(row)) for row in rows[:limit])
    return RunPage(items=items, next=f"{items[-1].start_at_ms}-{items[-1].id}" if len(rows) > limit else None)


async def show_run(orchestrator: Orchestrator, run: str) -> RunDetail:
    """Return a run with its ends and events. Raises `NotFoundError`."""
    async with orchestrator.read() as transaction:
        row = await transaction.first(_RUNS.where(RunRow.id == run))
        if row is None:
            raise NotFoundError(f"no run {shown(run)}; try `bentpipe exp ls`")
        ends = await transaction.rows(
            select(*RunEndRow.__table__.c, NodeRow.name.label("node"))
            .join(NodeRow, NodeRow.id == RunEndRow.node_id)
            .where(RunEndRow.run_id == run)
            .order_by(RunEndRow.end)
        )
        events = await transaction.rows(
            select(*RunEventRow.__table__.c, NodeRow.name.label("node"))
            .join(NodeRow, NodeRow.id == RunEventRow.node_id)
            .where(RunEventRow.run_id == run)
            .order_by(RunEventRow.at_ms, RunEventRow.seq)
            .limit(MOST_EVENTS)
        )
    return RunDetail(
        **_run_fields(row),
        ends=tuple(
            RunEndView(
                end=end.end,
                node=end.node,
                state=end.state,
                reason=end.reason,
                files=tuple(file["path"] for file in end.files or ()),
            )
            for end in ends
        ),
        events=tuple(_event(event) for event in events),
    )


def _event(row: Any) -> EventView:  # noqa: ANN401 - a row
    return EventView(node=row.node, at_ms=row.at_ms, received_at_ms=row.received_at_ms, kind=row.kind, body=row.body)


async def node_events(orchestrator: Orchestrator, node: str, limit: int) -> tuple[EventView, ...]:
    """Return the newest events of a node, newest first."""
    async with orchestrator.read() as transaction:
        rows = await transaction.rows(
            select(*RunEventRow.__table__.c, NodeRow.name.label("node"))
            .join(NodeRow, NodeRow.id == RunEventRow.node_id)
            .where(NodeRow.name == node)
            .order_by(RunEventRow.received_at_ms.desc(), RunEventRow.seq.desc())
            .limit(limit)
        )
    return tuple(_event(row) for row in rows)


async def list_triggers(orchestrator: Orchestrator, after: str, limit: int) -> TriggerPage:
    """List triggers, newest first."""
    firings = select(FiringRow.trigger_id, func.count().label("firings")).group_by(FiringRow.trigger_id).subquery()
    statement = (
        select(
            *TriggerRow.__table__.c,
            NodeRow.name.label("node"),
            ExperimentRow.name.label("experiment"),
            func.coalesce(firings.c.firings, 0).label("firings"),
        )
        .join(NodeRow, NodeRow.id == TriggerRow.node_id)
        .join(PlanRow, PlanRow.id == TriggerRow.plan_id)
        .join(ExperimentRow, ExperimentRow.id == PlanRow.experiment_id)
        .outerjoin(firings, firings.c.trigger_id == TriggerRow.id)
        .order_by(TriggerRow.id.desc())
        .limit(limit + 1)
    )
    if after:
        statement = statement.where(TriggerRow.id < after)
    async with orchestrator.read() as transaction:
        rows = await transaction.rows(statement)
    items = tuple(
        TriggerView(
            id=row.id,
            plan=row.plan_id,
            experiment=row.experiment,
            node=row.node,
            expression=row.expression,
            state=row.state,
            firings=row.firings,
        )
        for row in rows[:limit]
    )
    return TriggerPage(items=items, next=items[-1].id if len(rows) > limit else None)


async def list_firings(orchestrator: Orchestrator, trigger: str, after: int, limit: int) -> FiringPage:
    """List firings of a trigger, newest first; `after`: end of the window of the last one."""
    statement = (
        select(*FiringRow.__table__.c)
        .where(FiringRow.trigger_id == trigger)
        .order_by(FiringRow.window_end_at_ms.desc())
        .limit(limit + 1)
    )
    if after:
        statement = statement.where(FiringRow.window_end_at_ms < after)
    async with orchestrator.read() as transaction:
        rows = await transaction.rows(statement)
    items = tuple(
        FiringView(
            id=row.id,
            trigger=row.trigger_id,
            window_end_at_ms=row.window_end_at_ms,
            values=row.values,
            run=row.run_id,
            reason=row.reason,
        )
        for row in rows[:limit]
    )
    return FiringPage(items=items, next=str(items[-1].window_end_at_ms) if len(rows) > limit else None)


async def list_audit(orchestrator: Orchestrator, after: str, limit: int) -> AuditPage:
    """List the audit, newest first."""
    statement = select(*AuditRow.__table__.c).order_by(AuditRow.id.desc()).limit(limit + 1)
    if after:
        statement = statement.where(AuditRow.id < after)
    async with orchestrator.read() as transaction:
        rows = await transaction.rows(statement)
    items = tuple(
        AuditView(at_ms=row.at_ms, who=row.who, action=row.action, subject=row.subject, detail=row.detail)
        for row in rows[:limit]
    )
    return AuditPage(items=items, next=rows[limit - 1].id if len(rows) > limit else None)
