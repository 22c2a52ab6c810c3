"""Limits of runs that a node makes itself: the same as the node keeps, for a node that does not keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from bentpipe.testbed.orchestrator.database.tables import RunRow
from bentpipe.testbed.orchestrator.services.works import reserved_bytes
from bentpipe.testbed.schemas.experiment import TestbedExperiment
from bentpipe.testbed.schemas.quantities import budget_text
from bentpipe.testbed.schemas.states import ENDED

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Transaction
    from bentpipe.testbed.schemas.agent_protocol import RunEvent
    from bentpipe.testbed.schemas.quantities import Budget

RESTARTS = 100
"""Firings that may come before their cooldown is over: an agent that starts anew knows of no firing before."""
ENDED_OR_UPLOADING = (*sorted(ENDED), "uploading")
"""States in which the node has said how many bytes a run used."""


async def limit_reached(transaction: Transaction, plan: Any, event: RunEvent) -> str | None:  # noqa: ANN401 - a row
    """Return which limit of the experiment forbids a new run of a node; None: none."""
    experiment = TestbedExperiment.model_validate(plan.record)
    limits = experiment.limits
    if event.cause == "trigger":
        if limits.runs is not None and plan.runs >= limits.runs:
            return f"all {limits.runs} runs are used up"
        cooldown_ms = 1000 * max(experiment.when.cooldown, experiment.when.window)
        if plan.runs >= (transaction.now_ms - plan.created_at_ms) / cooldown_ms + RESTARTS:
            return f"{plan.runs} runs since the experiment began (cooldown {cooldown_ms / 1000:g} s)"
    elif experiment.scavenger.mode == "end":
        return "the experiment says scavenger: end"
    elif event.attempt > experiment.scavenger.max_preemptions:
        return f"attempt {event.attempt} (max_preemptions {experiment.scavenger.max_preemptions})"
    if limits.bytes is not None and not await _has_room(
        transaction, plan, limits.bytes, event.start_at_ms, reserved_bytes(experiment)
    ):
        return f"the budget of {budget_text(limits.bytes)} is used up"
    return None


async def _has_room(
    transaction: Transaction,
    plan: Any,  # noqa: ANN401 - a row
    budget: Budget,
    start_at_ms: int,
    expected: int,
) -> bool:
    """Return whether a run fits in the budget of the period before it; no more is counted than the node counts."""
    runs = (
        RunRow.plan_id == plan.id,
        RunRow.start_at_ms > start_at_ms - round(budget.period_s * 1000),
        RunRow.start_at_ms <= start_at_ms,
    )
    ended = RunRow.state.in_(ENDED_OR_UPLOADING)
    used = await transaction.scalar(select(func.sum(RunRow.up_bytes + RunRow.down_bytes)).where(*runs, ended))
    reserved = await transaction.scalar(select(func.sum(RunRow.reserved_bytes)).where(*runs, ~ended))
    return int(used or 0) + int(reserved or 0) + expected <= budget.size_bytes
