"""The audit: who did what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import insert

from bentpipe.testbed.orchestrator.database.tables import AuditRow
from bentpipe.testbed.schemas.identifiers import new_id

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Transaction


async def record(transaction: Transaction, who: str, action: str, subject: str, **detail: Any) -> None:  # noqa: ANN401 - plain data
    """Write a line of the audit in the transaction of the deed itself."""
    await transaction.execute(
        insert(AuditRow).values(
            id=new_id(transaction.now_ms),
            at_ms=transaction.now_ms,
            who=who[:100],
            action=action,
            subject=subject[:400],
            detail=detail,
        )
    )
