"""Notes of the orchestrator about a node, beside those of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import insert, select

from bentpipe.testbed.orchestrator.database.tables import RunEventRow

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Transaction

ORCHESTRATOR_BOOT = "0" * 32
"""Boot id of notes that the orchestrator writes of a node."""


async def note(transaction: Transaction, node: str, topic: str, text: str, run: str | None = None) -> None:
    """Write a note of the orchestrator about a node, as those of agents."""
    last = await transaction.scalar(
        select(RunEventRow.seq)
        .where(RunEventRow.node_id == node, RunEventRow.boot_id == ORCHESTRATOR_BOOT)
        .order_by(RunEventRow.seq.desc())
        .limit(1)
    )
    await transaction.execute(
        insert(RunEventRow).values(
            node_id=node,
            boot_id=ORCHESTRATOR_BOOT,
            seq=(last or 0) + 1,
            at_ms=transaction.now_ms,
            received_at_ms=transaction.now_ms,
            kind="note",
            run_id=run,
            waits=False,
            body={"kind": "note", "topic": topic, "text": text[:500], "run": run},
        )
    )
