"""Transitions of a run and its ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import update

from bentpipe.testbed.orchestrator.database.tables import RunEndRow, RunRow
from bentpipe.testbed.orchestrator.services.calendars import release
from bentpipe.testbed.schemas.states import FINAL, may_follow

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Transaction

EndRow: TypeAlias = Any
"""A row of a query with an end."""

DEFAULT_REASONS = {
    "failed": "the agent gave no reason",
    "missed": "the agent gave no reason",
    "canceled": "the agent gave no reason",
    "preempted": "the household used its link",
}


async def set_end(
    transaction: Transaction, end: EndRow, state: str, reason: str, *, up_bytes: int | None, down_bytes: int | None
) -> bool:
    """Bring an end of a run into a state, and the run with its client end.

    Args:
        transaction: The transaction.
        end: Row with the end's state and the run's: `run_id`, `end`, `state`, `run_state`, `attempt`, `retries`.
        state: New state.
        reason: Why.
        up_bytes: Bytes sent so far; None: unknown.
        down_bytes: Bytes received so far.

    Returns:
        Whether it changed: a state does not go back, and a final one stays.
    """
    reason = reason or DEFAULT_REASONS.get(state, "")
    if not may_follow(end.state, state):
        return False
    changed = await transaction.change(
        update(RunEndRow)
        .where(RunEndRow.run_id == end.run_id, RunEndRow.end == end.end, RunEndRow.state == end.state)
        .values(state=state, reason=reason)
    )
    if not changed:
        return False
    if end.end == "client":
        await _set_run(transaction, end, state, reason, up_bytes, down_bytes)
    elif state in FINAL and state != "done":
        await transaction.execute(
            update(RunRow)
            .where(RunRow.id == end.run_id, RunRow.state.not_in(FINAL), RunRow.reason == "")
            .values(reason=f"at the server: {reason}"[:500])
        )
    return True


async def _set_run(
    transaction: Transaction,
    end: EndRow,
    state: str,
    reason: str,
    up_bytes: int | None,
    down_bytes: int | None,
) -> None:
    values: dict[str, Any] = {"state": state, "changed_at_ms": transaction.now_ms}
    if reason or state == "done":
        values["reason"] = reason
    if up_bytes is not None:
        values["up_bytes"] = up_bytes
    if down_bytes is not None:
        values["down_bytes"] = down_bytes
    if state == "preempted":
        values["wants_retry"] = True
    await transaction.execute(
        update(RunRow).where(RunRow.id == end.run_id, RunRow.state.not_in(FINAL)).values(**values)
    )
    if state in FINAL or state == "uploading":
        await release(transaction, [end.run_id])
