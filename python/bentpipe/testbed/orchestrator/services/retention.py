"""Retention: events of agents and lines of the audit are deleted after some days, in small transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, select, tuple_

from bentpipe.testbed.orchestrator.database.tables import AuditRow, NodeRow, RunEventRow

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Orchestrator

DAY_MS = 86_400_000
ROWS_AT_ONCE = 500
"""Rows of one transaction: others write between two."""


async def delete_old(orchestrator: Orchestrator, events_days: int, audit_days: int) -> int:
    """Delete what is older than so many days; 0: nothing. Return the number of rows.

    An event that is deleted is not taken a second time: the number of the next one is kept apart, by start of an agent.
    """
    now_ms, count = orchestrator.clock(), 0
    if events_days:
        count += await _delete_events(orchestrator, now_ms - events_days * DAY_MS)
    if audit_days:
        count += await _delete_audit(orchestrator, now_ms - audit_days * DAY_MS)
    return count


async def _delete_events(orchestrator: Orchestrator, limit_at_ms: int) -> int:
    """Delete events of each node that arrived before a time; the index of nodes and times finds them."""
    key = (RunEventRow.node_id, RunEventRow.boot_id, RunEventRow.seq)
    async with orchestrator.read() as transaction:
        nodes = [row.id for row in await transaction.rows(select(NodeRow.id))]
    count = 0
    for node in nodes:
        old = select(*key).where(RunEventRow.node_id == node, RunEventRow.received_at_ms < limit_at_ms)
        while True:
            async with orchestrator.read() as transaction:
                rows = [tuple(row) for row in await transaction.rows(old.limit(ROWS_AT_ONCE))]
            if rows:
                async with orchestrator.write() as transaction:
                    await transaction.execute(delete(RunEventRow).where(tuple_(*key).in_(rows)))
            count += len(rows)
            if len(rows) < ROWS_AT_ONCE:
                break
    return count


async def _delete_audit(orchestrator: Orchestrator, limit_at_ms: int) -> int:
    """Delete lines of the audit from before a time, oldest first."""
    old = select(AuditRow.id).where(AuditRow.at_ms < limit_at_ms).order_by(AuditRow.at_ms).limit(ROWS_AT_ONCE)
    count = 0
    while True:
        async with orchestrator.read() as transaction:
            rows = [row.id for row in await transaction.rows(old)]
        if rows:
            async with orchestrator.write() as transaction:
                await transaction.execute(delete(AuditRow).where(AuditRow.id.in_(rows)))
        count += len(rows)
        if len(rows) < ROWS_AT_ONCE:
            return count
