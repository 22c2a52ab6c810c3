"""Old events and lines of the audit are deleted; newer ones, and what they are about, stay."""

import pytest
from sqlalchemy import func, insert, select
from testbed_orchestrators import NOW_MS, Clock, join, orchestrator

from bentpipe.testbed.orchestrator.database.tables import AuditRow, NodeRow, RunEventRow
from bentpipe.testbed.orchestrator.services import retention

DAY_MS = retention.DAY_MS


@pytest.mark.anyio
async def test_old_rows_are_deleted_in_small_transactions(tmp_path, database_url, monkeypatch):
    monkeypatch.setattr(retention, "ROWS_AT_ONCE", 10)
    clock = Clock()
    async with orchestrator(tmp_path, database_url, clock) as testbed:
        nodes = [(await join(testbed, name)).node for name in ("attic", "cellar")]

        def event(node, number, days):
            return {
                "node_id": node,
                "boot_id": "b" * 32,
                "seq": number,
                "at_ms": NOW_MS,
                "received_at_ms": NOW_MS - days * DAY_MS,
                "kind": "note",
                "run_id": None,
                "waits": False,
                "body": {},
            }

        rows = [event(node, number, number) for node in nodes for number in range(1, 101)]
        lines = [
            {
                "id": f"{day:032}",
                "at_ms": NOW_MS - day * DAY_MS,
                "who": "x",
                "action": "y",
                "subject": "z",
                "detail": {},
            }
            for day in range(1, 31)
        ]
        async with testbed.write() as transaction:
            await transaction.execute(insert(RunEventRow), rows)
            await transaction.execute(insert(AuditRow), lines)

        async def left():
            async with testbed.read() as transaction:
                tables = (RunEventRow, AuditRow, NodeRow)
                return [await transaction.scalar(select(func.count()).select_from(table)) for table in tables]

        events, audit, _ = await left()
        assert await retention.delete_old(testbed, 0, 0) == 0
        assert await left() == [events, audit, 2]
        assert await retention.delete_old(testbed, 60, 0) == 2 * 40
        assert await retention.delete_old(testbed, 60, 20) == 10
        assert await left() == [events - 80, audit - 10, 2]
        async with testbed.read() as transaction:
            oldest = await transaction.scalar(select(func.min(RunEventRow.received_at_ms)))
        assert oldest == NOW_MS - 60 * DAY_MS
        assert await retention.delete_old(testbed, 60, 20) == 0
