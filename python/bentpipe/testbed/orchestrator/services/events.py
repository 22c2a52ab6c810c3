"""Events of agents: stored once each, by node, start of the agent and number; applied in the same transaction.

An agent may act alone for two days, so events come late, in bulk, and about runs that it made itself. A server's end
may report a run before its client has: such events wait until the run is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, select, update

from bentpipe.testbed.orchestrator.database.tables import (
    BootRow,
    FiringRow,
    NodeRow,
    RunEndRow,
    RunEventRow,
    RunRow,
    TriggerRow,
)
from bentpipe.testbed.orchestrator.metrics import EVENTS
from bentpipe.testbed.orchestrator.services.agent_runs import create_run
from bentpipe.testbed.orchestrator.services.notes import note
from bentpipe.testbed.orchestrator.services.run_states import set_end
from bentpipe.testbed.schemas.agent_protocol import (
    EventAnswer,
    FiringEvent,
    RunEvent,
    StateEvent,
)
from bentpipe.testbed.schemas.identifiers import derived_id
from bentpipe.testbed.schemas.states import FINAL

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Orchestrator, Transaction
    from bentpipe.testbed.orchestrator.node_table import KnownNode
    from bentpipe.testbed.orchestrator.services.boots import Boots
    from bentpipe.testbed.schemas.agent_protocol import Event, EventBatch


async def take_events(orchestrator: Orchestrator, boots: Boots, node: KnownNode, batch: EventBatch) -> EventAnswer:
    """Store and apply a batch. Events that came before are passed over; after a gap nothing is taken."""
    if node.boot_id != batch.boot_id or node.next_seq is None:
        await boots.know(node, batch.boot_id)
    stale: set[str] = set()

    async def act(transaction: Transaction) -> int:
        known = node.next_seq if orchestrator.database.is_sqlite and node.boot_id == batch.boot_id else None
        return await _store(transaction, node.node, batch, stale, known)

    next_seq = await orchestrator.write_grouped(act)
    return EventAnswer(next_seq=next_seq, stale=tuple(sorted(stale)))


async def _store(transaction: Transaction, node: str, batch: EventBatch, stale: set[str], known: int | None) -> int:
    """Store and apply a batch; return the number of the first event that has not arrived.

    `known` is that number before, in memory: the only process on an SQLite file knows it.
    """
    stale.clear()
    key = (node, batch.boot_id)
    next_seq = transaction.next_seqs.get(key, known)
    if next_seq is None:
        next_seq = int(
            await transaction.scalar(
                select(BootRow.next_seq)
                .where(BootRow.node_id == node, BootRow.boot_id == batch.boot_id)
                .with_for_update()
            )
        )
    first = next_seq
    for event in sorted(batch.events, key=lambda each: each.seq):
        if event.seq < next_seq:
            stale |= await _stale_of(transaction, node, event)
            continue
        if event.seq > next_seq:
            break
        await _take(transaction, node, batch.boot_id, event, stale)
        next_seq += 1
        EVENTS.inc()
    if next_seq > first:
        transaction.next_seqs[key] = next_seq
    return next_seq


async def _take(transaction: Transaction, node: str, boot_id: str, event: Event, stale: set[str]) -> None:
    body = event.body
    run = getattr(body, "run", None)
    waits = False
    if isinstance(body, StateEvent):
        waits = not await apply_state(transaction, node, body, stale)
    elif isinstance(body, RunEvent):
        if await create_run(transaction, node, body):
            await transaction.write_events()
            await _apply_waiting(transaction, body.run)
        else:
            stale.add(body.run)
    elif isinstance(body, FiringEvent):
        await _take_firing(transaction, node, body)
    if run is not None and not waits and not await _is_own(transaction, node, run):
        run = None  # it stays in the node's own events, not in those of another's run
    transaction.events.append(
        {
            "node_id": node,
            "boot_id": boot_id,
            "seq": event.seq,
            "at_ms": round(event.at_ms),
            "received_at_ms": transaction.now_ms,
            "kind": body.kind,
            "run_id": run,
            "waits": waits,
            "body": body.to_dict(),
        }
    )


async def _is_own(transaction: Transaction, node: str, run: str) -> bool:
    """Return whether a node is an end of a run."""
    statement = select(RunEndRow.run_id).where(RunEndRow.run_id == run, RunEndRow.node_id == node)
    return await transaction.first(statement) is not None


async def _end(transaction: Transaction, run: str, end: str) -> Any:  # noqa: ANN401 - a row
    return await transaction.first(
        select(
            RunEndRow.run_id,
            RunEndRow.end,
            RunEndRow.node_id,
            RunEndRow.state,
            RunEndRow.fence,
            RunEndRow.files,
            RunRow.plan_id,
        )
        .join(RunRow, RunRow.id == RunEndRow.run_id)
        .where(RunEndRow.run_id == run, RunEndRow.end == end)
    )


async def apply_state(transaction: Transaction, node: str, body: StateEvent, stale: set[str]) -> bool:
    """Apply a state of an end. Return False: the run is not known yet."""
    row = await _end(transaction, body.run, body.end)
    if row is None:
        return False
    if row.node_id != node or row.fence != body.fence:
        stale.add(body.run)
        return True
    if row.state in FINAL and body.state not in FINAL:
        stale.add(body.run)  # canceled meanwhile: the agent stops it
        return True
    state = body.state
    if state == "done" and row.files is None:
        state = "uploading"  # done is believed when the results are there
    await set_end(transaction, row, state, body.reason, up_bytes=body.up_bytes, down_bytes=body.down_bytes)
    if state in FINAL or state == "preempted":
        transaction.wakes_planner = True
    return True


async def _stale_of(transaction: Transaction, node: str, event: Event) -> set[str]:
    """Return the run of an event that came before, if its fence is stale: that answer may have been lost."""
    if not isinstance(event.body, StateEvent):
        return set()
    row = await _end(transaction, event.body.run, event.body.end)
    if row is not None and (row.node_id != node or row.fence != event.body.fence):
        return {event.body.run}
    return set()


async def _apply_waiting(transaction: Transaction, run: str) -> None:
    """Apply events about a run that came before it was known."""
    rows = await transaction.rows(
        select(*RunEventRow.__table__.c)
        .where(RunEventRow.run_id == run, RunEventRow.waits)
        .order_by(RunEventRow.received_at_ms, RunEventRow.seq)
    )
    for row in rows:
        await apply_state(transaction, row.node_id, StateEvent.model_validate(row.body), set())
    if rows:
        waiting = update(RunEventRow).where(RunEventRow.run_id == run, RunEventRow.waits)
        ends = select(RunEndRow.node_id).where(RunEndRow.run_id == run)
        await transaction.execute(waiting.where(RunEventRow.node_id.not_in(ends)).values(waits=False, run_id=None))
        await transaction.execute(waiting.values(waits=False))


async def _take_firing(transaction: Transaction, node: str, body: FiringEvent) -> None:
    """Store a firing, once: its id says which."""
    trigger = await transaction.first(
        select(NodeRow.name)
        .join(TriggerRow, TriggerRow.node_id == NodeRow.id)
        .where(TriggerRow.id == body.trigger, NodeRow.id == node)
    )
    name = None if trigger is None else trigger.name
    if name is None or body.firing != derived_id("firing", body.trigger, name, body.window_end_at_ms):
        await note(transaction, node, "agent", "a firing of a trigger that is not this node's was left out")
        return
    if await transaction.scalar(select(FiringRow.id).where(FiringRow.id == body.firing)) is not None:
        return
    await transaction.execute(
        insert(FiringRow).values(
            id=body.firing,
            trigger_id=body.trigger,
            node_id=node,
            window_end_at_ms=body.window_end_at_ms,
            values=dict(body.values),
            run_id=body.run,
            reason=body.reason,
        )
    )
