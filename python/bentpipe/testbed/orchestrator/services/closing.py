"""The end of plans: their triggers, their runs that have not ended, and the bookings of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from bentpipe.testbed.orchestrator.database.tables import NodeRow, PlanRow, RunEndRow, RunRow, TriggerRow
from bentpipe.testbed.orchestrator.services.calendars import release
from bentpipe.testbed.schemas.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.orchestrator.context import Transaction

AT_ONCE = 500
"""Ids in one statement."""


async def end_plans(
    transaction: Transaction, plans: Sequence[Any], reason: str, *, kept: frozenset[str] = frozenset({"uploading"})
) -> int:
    """End plans (rows with `id`, `node_id`, `server_id`), and cancel their open runs; return how many runs.

    One that is uploading is left: its program has ended, and its result comes. A run that was lost stays so if its
    time is over: its node may have made it.
    The plans come first: a planner that works on one is waited for, and its runs are then seen.
    """
    names = sorted(plan.id for plan in plans)
    canceled = 0
    for first in range(0, len(names), AT_ONCE):
        some = names[first : first + AT_ONCE]
        await transaction.execute(
            update(PlanRow).where(PlanRow.id.in_(some)).values(state="ended", next_due_at_ms=None)
        )
        await transaction.execute(update(TriggerRow).where(TriggerRow.plan_id.in_(some)).values(state="ended"))
        canceled += await _cancel_runs(transaction, some, reason, FINAL | kept)
    for plan in plans:
        transaction.touch([plan.node_id, plan.server_id])
    return canceled


async def _cancel_runs(transaction: Transaction, plans: Sequence[str], reason: str, kept: frozenset[str]) -> int:
    is_open = select(RunRow.id).where(
        RunRow.plan_id.in_(plans),
        RunRow.state.not_in(kept),
        (RunRow.state != "lost") | (RunRow.end_at_ms > transaction.now_ms),
    )
    runs = [run.id for run in await transaction.rows(is_open)]
    canceled = 0
    for first in range(0, len(runs), AT_ONCE):
        some = runs[first : first + AT_ONCE]
        canceled += await transaction.change(
            update(RunRow)
            .where(RunRow.id.in_(some), RunRow.state.not_in(kept))
            .values(state="canceled", reason=reason, changed_at_ms=transaction.now_ms)
        )
        await transaction.execute(
            update(RunEndRow)
            .where(RunEndRow.run_id.in_(some), RunEndRow.state.not_in(kept))
            .values(state="canceled", reason=reason)
        )
        await release(transaction, some)
    await transaction.execute(
        update(RunRow).where(RunRow.plan_id.in_(plans), RunRow.wants_retry).values(wants_retry=False)
    )
    return canceled


async def end_plans_of_nodes(transaction: Transaction, nodes: Sequence[str]) -> tuple[int, int]:
    """End the active plans of revoked nodes, at either end; return how many, and how many runs were canceled."""
    if not nodes:
        return 0, 0
    plans = await transaction.rows(
        select(PlanRow.id, PlanRow.node_id, PlanRow.server_id).where(
            PlanRow.state == "active", PlanRow.node_id.in_(nodes) | PlanRow.server_id.in_(nodes)
        )
    )
    return len(plans), await end_plans(transaction, plans, "a node of it was revoked", kept=frozenset())


async def end_plans_of_revoked(transaction: Transaction) -> None:
    """End active plans of nodes that are revoked: those of a submission at the moment of the revocation."""
    statement = select(NodeRow.id).join(PlanRow, (PlanRow.node_id == NodeRow.id) | (PlanRow.server_id == NodeRow.id))
    revoked = await transaction.rows(statement.where(NodeRow.state == "revoked", PlanRow.state == "active").distinct())
    await end_plans_of_nodes(transaction, [row.id for row in revoked])
