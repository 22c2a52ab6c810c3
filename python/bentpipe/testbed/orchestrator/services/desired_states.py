"""The wanted state of a node, built from the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from bentpipe.testbed.orchestrator.database.tables import (
    ExperimentRow,
    ImageRow,
    NodeRow,
    PlanRow,
    RunEndRow,
    RunRow,
    TriggerRow,
)
from bentpipe.testbed.orchestrator.services.refusals import NotFoundError
from bentpipe.testbed.schemas.desired import (
    HORIZON_S,
    ArmedTrigger,
    Assignment,
    Desired,
    NodeSettings,
    Peer,
    SessionGrant,
    Work,
)
from bentpipe.testbed.schemas.experiment import TestbedExperiment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.orchestrator.context import Orchestrator, Transaction

ARMING_FENCE = 1
"""Fence of a plan's trigger and of its grants: the plan's first."""
MOST_RUNS = 1_000_000
"""Runs of an experiment without a limit."""
HORIZON_MS = round(HORIZON_S * 1000)
ASSIGNED = ("planned", "assigned", "preparing", "ready", "running")


async def desired_state(orchestrator: Orchestrator, node: str) -> Desired:
    """Return a node's whole wanted state; what was planned is then assigned. Raises `NotFoundError`."""
    async with orchestrator.read() as transaction:
        desired = await build(transaction, node)
    if any(await _planned(orchestrator, node, desired)):
        await _assign(orchestrator, node, desired)
    return desired


async def build(transaction: Transaction, node: str) -> Desired:
    """Build the wanted state of a node. Raises `NotFoundError`."""
    now_ms = transaction.now_ms
    row = await transaction.first(select(NodeRow.version, NodeRow.settings, NodeRow.name).where(NodeRow.id == node))
    if row is None:
        raise NotFoundError("the node is unknown")
    works: dict[str, Work] = {}
    planned, armed = await _planned_rows(transaction, node), await _armed_rows(transaction, node)
    names = await _names(transaction, [*planned, *armed])
    assignments = _assignments(planned, names, works)
    triggers, grants = _armed(armed, node, names, works)
    images = sorted({work.program.image for work in works.values() if work.program.image is not None})
    if images:
        approved = select(ImageRow.reference).where(ImageRow.reference.in_(images), ImageRow.state == "approved")
        images = sorted(each.reference for each in await transaction.rows(approved))
    return Desired(
        version=row.version,
        node=node,
        issued_at_ms=now_ms,
        until_at_ms=now_ms + HORIZON_MS,
        settings=NodeSettings.model_validate(row.settings),
        works=works,
        assignments=tuple(assignments),
        triggers=tuple(triggers),
        grants=tuple(grants),
        images=tuple(images),
    )


def _peer(end: str, row: Any, names: dict[str, Any]) -> Peer | None:  # noqa: ANN401 - rows
    """Return the other end of a plan, as `end` sees it."""
    if row.server_id is None:
        return None
    other = names[row.server_id if end == "client" else row.node_id]
    address = other.report.get("control_address") if end == "client" else None
    return Peer(node=other.name, address=address, key=row.key)


async def _names(transaction: Transaction, rows: Sequence[Any]) -> dict[str, Any]:
    """Return the nodes at both ends of these rows, by id."""
    nodes = sorted({node for row in rows for node in (row.node_id, row.server_id) if node is not None})
    known: dict[str, Any] = {}
    for first in range(0, len(nodes), 500):
        statement = select(NodeRow.id, NodeRow.name, NodeRow.report).where(NodeRow.id.in_(nodes[first : first + 500]))
        known.update({row.id: row for row in await transaction.rows(statement)})
    return known


async def _planned_rows(transaction: Transaction, node: str) -> Sequence[Any]:
    now_ms = transaction.now_ms
    statement = (
        select(
            RunEndRow.end,
            RunEndRow.fence,
            RunRow.id,
            RunRow.plan_id,
            RunRow.attempt,
            RunRow.due_at_ms,
            RunRow.start_at_ms,
            RunRow.latest_start_at_ms,
            PlanRow.node_id,
            PlanRow.server_id,
            PlanRow.key,
            ExperimentRow.work,
            ExperimentRow.work_hash,
        )
        .join(RunRow, RunRow.id == RunEndRow.run_id)
        .join(PlanRow, PlanRow.id == RunRow.plan_id)
        .join(ExperimentRow, ExperimentRow.id == RunRow.experiment_id)
        .where(
            (RunRow.node_id == node) | (RunRow.server_id == node),
            RunEndRow.node_id == node,
            RunEndRow.state.in_((*ASSIGNED, "lost")),
            RunRow.start_at_ms < now_ms + HORIZON_MS,
            RunRow.start_at_ms > now_ms - HORIZON_MS,
            (RunRow.state.in_(ASSIGNED)) | ((RunRow.state == "lost") & (RunRow.end_at_ms > now_ms)),
        )
        .order_by(RunRow.start_at_ms)
    )
    return await transaction.rows(statement)


def _assignments(rows: Sequence[Any], names: dict[str, Any], works: dict[str, Work]) -> Sequence[Assignment]:
    assignments = []
    for row in rows:
        if row.work_hash not in works:
            works[row.work_hash] = Work.model_validate(row.work)
        assignments.append(
            Assignment(
                run=row.id,
                plan=row.plan_id,
                fence=row.fence,
                attempt=row.attempt,
                end=row.end,
                work=row.work_hash,
                due_at_ms=row.due_at_ms,
                start_at_ms=row.start_at_ms,
                latest_start_at_ms=row.latest_start_at_ms,
                peer=_peer(row.end, row, names),
            )
        )
    return assignments


async def _armed_rows(transaction: Transaction, node: str) -> Sequence[Any]:
    statement = (
        select(
            *PlanRow.__table__.c,
            ExperimentRow.record,
            ExperimentRow.work,
            ExperimentRow.work_hash,
            ExperimentRow.until_at_ms,
            TriggerRow.id.label("trigger"),
        )
        .join(ExperimentRow, ExperimentRow.id == PlanRow.experiment_id)
        .outerjoin(TriggerRow, TriggerRow.plan_id == PlanRow.id)
        .where(
            (PlanRow.node_id == node) | (PlanRow.server_id == node),
            PlanRow.state == "active",
            ExperimentRow.state == "active",
            ExperimentRow.until_at_ms > transaction.now_ms,
        )
        .order_by(PlanRow.id)
    )
    return await transaction.rows(statement)


def _armed(
    rows: Sequence[Any], node: str, names: dict[str, Any], works: dict[str, Work]
) -> tuple[list[ArmedTrigger], list[SessionGrant]]:
    triggers, grants = [], []
    for row in rows:
        is_client = row.node_id == node
        if is_client and row.trigger is None:
            continue
        if not is_client and row.server_id is None:
            continue
        if row.work_hash not in works:
            works[row.work_hash] = Work.model_validate(row.work)
        peer = _peer("client" if is_client else "server", row, names)
        if not is_client:
            if peer is not None:
                grants.append(
                    SessionGrant(
                        plan=row.id,
                        fence=ARMING_FENCE,
                        work=row.work_hash,
                        peer=peer,
                        until_at_ms=row.until_at_ms,
                        is_armed=row.trigger is not None,
                    )
                )
            continue
        experiment = TestbedExperiment.model_validate(row.record)
        most = experiment.limits.runs
        # A trigger with all its runs stays: the node fires it no more, and its last run may still be under way.
        if experiment.when.trigger is not None:
            triggers.append(
                ArmedTrigger(
                    trigger=row.trigger,
                    plan=row.id,
                    fence=ARMING_FENCE,
                    expression=experiment.when.trigger,
                    window_s=experiment.when.window,
                    for_windows=experiment.when.for_windows,
                    cooldown_s=experiment.when.cooldown,
                    work=row.work_hash,
                    peer=peer,
                    most_runs=MOST_RUNS if most is None else most,
                    started_runs=row.runs,
                    bytes_budget=experiment.limits.bytes,
                    until_at_ms=row.until_at_ms,
                )
            )
    return triggers, grants


async def _planned(orchestrator: Orchestrator, node: str, desired: Desired) -> list[bool]:
    """Return whether there are ends that the node gets for the first time."""
    if not desired.assignments:
        return []
    async with orchestrator.read() as transaction:
        first = await transaction.first(
            select(RunEndRow.run_id)
            .join(RunRow, RunRow.id == RunEndRow.run_id)
            .where(
                (RunRow.node_id == node) | (RunRow.server_id == node),
                RunEndRow.node_id == node,
                RunEndRow.state == "planned",
                RunRow.state == "planned",
            )
            .limit(1)
        )
    return [] if first is None else [True]


async def _assign(orchestrator: Orchestrator, node: str, desired: Desired) -> None:
    """Note that the node has its assignments: only those whose fence it got."""
    async with orchestrator.write() as transaction:
        version = await transaction.scalar(select(NodeRow.version).where(NodeRow.id == node))
        if version != desired.version:
            return  # it changed since; the node fetches the newer one at once
        runs = [assignment.run for assignment in desired.assignments]
        for begin in range(0, len(runs), 500):
            some = runs[begin : begin + 500]
            await transaction.execute(
                update(RunRow)
                .where(RunRow.id.in_(some), RunRow.node_id == node, RunRow.state == "planned")
                .values(state="assigned", changed_at_ms=transaction.now_ms)
            )
            await transaction.execute(
                update(RunEndRow)
                .where(RunEndRow.run_id.in_(some), RunEndRow.node_id == node, RunEndRow.state == "planned")
                .values(state="assigned")
            )
