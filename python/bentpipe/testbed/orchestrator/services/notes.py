"""Notes of the orchestrator about a node, beside those of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, insert, select
from sqlalchemy.exc import IntegrityError

from bentpipe.testbed.orchestrator.database.tables import RunEventRow

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Transaction

ORCHESTRATOR_BOOT = "0" * 32
"""Boot id of notes that the orchestrator writes of a node."""
TRIES = 5
"""Times that a note is written, if other processes write notes of the same node at the same moment."""


async def note(transaction: Transaction, node: str, topic: str, text: str, run: str | None = None) -> None:
    """Write a note of the orchestrator about a node, as those of agents."""
    values = {
        "node_id": node,
        "boot_id": ORCHESTRATOR_BOOT,
        "at_ms": transaction.now_ms,
        "received_at_ms": transaction.now_ms,
        "kind": "note",
        "run_id": run,
        "waits": False,
        "body": {"kind": "note", "topic": topic, "text": text[:500], "run": run},
    }
    newest = select(func.coalesce(func.max(RunEventRow.seq), 0)).where(
        RunEventRow.node_id == node, RunEventRow.boot_id == ORCHESTRATOR_BOOT
    )
    for left in reversed(range(TRIES)):
        number = int(await transaction.scalar(newest)) + 1
        try:
            async with transaction.connection.begin_nested():
                await transaction.execute(insert(RunEventRow).values(seq=number, **values))
            return
        except IntegrityError:  # another process took the number meanwhile
            if not left:
                raise
