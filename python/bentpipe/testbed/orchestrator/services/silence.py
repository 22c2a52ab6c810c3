"""Nodes that are silent, and runs of which nothing is heard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select, update

from bentpipe.testbed.orchestrator.database.tables import NodeRow, RunEndRow, RunRow
from bentpipe.testbed.orchestrator.services.calendars import release
from bentpipe.testbed.orchestrator.services.closing import end_plans_of_revoked
from bentpipe.testbed.orchestrator.services.notes import note
from bentpipe.testbed.schemas.agent_protocol import LOST_S
from bentpipe.testbed.schemas.quantities import at_text
from bentpipe.testbed.schemas.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.orchestrator.context import Orchestrator, Transaction

LOST_MS = round(LOST_S * 1000)
UNREPORTED_MS = 3600 * 1000
"""Time after a run's end without a report, at a node that calls, after which the run is lost [ms]."""
BEGUN = ("assigned", "preparing", "ready", "running", "uploading")
RUNS_PER_TURN = 500


async def silence_turn(orchestrator: Orchestrator) -> int:
    """Mark silent nodes and their runs as lost, and runs as missed whose node never got them. Return how many."""
    async with orchestrator.write() as transaction:
        await end_plans_of_revoked(transaction)
        return await mark_nodes(transaction) + await mark_runs(transaction) + await mark_missed(transaction)


async def mark_nodes(transaction: Transaction) -> int:
    """Mark nodes that were not heard of for two minutes."""
    limit = transaction.now_ms - LOST_MS
    rows = await transaction.rows(
        select(NodeRow.id, NodeRow.seen_at_ms).where(
            NodeRow.lost.is_(False), NodeRow.seen_at_ms < limit, NodeRow.state == "active"
        )
    )
    for row in rows:
        await transaction.execute(update(NodeRow).where(NodeRow.id == row.id).values(lost=True))
        await note(transaction, row.id, "agent", f"silent since {at_text(row.seen_at_ms)}")
    return len(rows)


async def mark_runs(transaction: Transaction) -> int:
    """Mark runs as lost: begun at a silent node, or never reported. Their bookings stay; a late result counts."""
    now_ms = transaction.now_ms
    silent = await transaction.rows(
        select(RunRow.id)
        .join(NodeRow, NodeRow.id == RunRow.node_id)
        .where(RunRow.state.in_(BEGUN), RunRow.start_at_ms <= now_ms, NodeRow.lost)
        .limit(RUNS_PER_TURN)
    )
    await _lose(transaction, [row.id for row in silent], "the node is silent")
    unreported = await transaction.rows(
        select(RunRow.id)
        .where(RunRow.state.in_(BEGUN[:4]), RunRow.end_at_ms < now_ms - UNREPORTED_MS)
        .limit(RUNS_PER_TURN)
    )
    await _lose(transaction, [row.id for row in unreported], "the node did not report it within an hour after its end")
    return len(silent) + len(unreported)


async def mark_missed(transaction: Transaction) -> int:
    """Mark runs as missed whose node did not fetch its calendar in time."""
    due = (
        select(RunRow.id)
        .where(RunRow.state == "planned", RunRow.latest_start_at_ms < transaction.now_ms)
        .limit(RUNS_PER_TURN)
    )
    reason = "the node did not fetch its calendar in time"
    rows = await transaction.rows(
        update(RunRow)
        .where(RunRow.id.in_(due), RunRow.state == "planned")  # once more: it may be assigned meanwhile
        .values(state="missed", reason=reason, changed_at_ms=transaction.now_ms)
        .returning(RunRow.id)
    )
    runs = [row.id for row in rows]
    if runs:
        await transaction.execute(
            update(RunEndRow)
            .where(RunEndRow.run_id.in_(runs), RunEndRow.state.not_in(FINAL))
            .values(state="missed", reason=reason)
        )
        await release(transaction, runs)
    return len(runs)


async def _lose(transaction: Transaction, runs: Sequence[str], reason: str) -> None:
    if not runs:
        return
    await transaction.execute(
        update(RunRow)
        .where(RunRow.id.in_(runs), RunRow.state.in_(BEGUN))
        .values(state="lost", reason=reason, changed_at_ms=transaction.now_ms)
    )
    await transaction.execute(
        update(RunEndRow)
        .where(RunEndRow.run_id.in_(runs), RunEndRow.end == "client", RunEndRow.state.in_(BEGUN))
        .values(state="lost", reason=reason)
    )
