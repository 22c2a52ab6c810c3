"""Nodes: their reports, and their settings by users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select, update

from bentpipe.errors import shown
from bentpipe.testbed.orchestrator.database.tables import NodeRow, UserRow
from bentpipe.testbed.orchestrator.services import audit
from bentpipe.testbed.orchestrator.services.closing import end_plans_of_nodes
from bentpipe.testbed.orchestrator.services.refusals import ForbiddenError, NotFoundError
from bentpipe.testbed.schemas.agent_protocol import LOST_S
from bentpipe.testbed.schemas.desired import NodeSettings
from bentpipe.testbed.schemas.node import NodeReport, NodeStatus
from bentpipe.testbed.schemas.views import NodePage, NodeView

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement

    from bentpipe.testbed.orchestrator.context import Orchestrator
    from bentpipe.testbed.orchestrator.security.roles import Caller
    from bentpipe.testbed.schemas.views import NodeChange


async def report(orchestrator: Orchestrator, node: str, description: NodeReport) -> None:
    """Store what a node says of itself."""
    async with orchestrator.write() as transaction:
        await transaction.execute(
            update(NodeRow)
            .where(NodeRow.id == node)
            .values(report=description.to_dict(), max_parallel=description.policy.max_parallel)
        )
        transaction.touch([node])
        transaction.wakes_planner = True


def named(key: str) -> ColumnElement[bool]:
    """Return the condition for a node by id or name. Order by ``id != key``: a name may look like another's id."""
    return (NodeRow.name == key) | (NodeRow.id == key)


_VIEW = select(*NodeRow.__table__.c, UserRow.name.label("owner")).outerjoin(UserRow, UserRow.id == NodeRow.owner_id)


def _view(row: Any, now_ms: int) -> NodeView:  # noqa: ANN401 - a row
    seen_at_ms = row.seen_at_ms
    return NodeView(
        id=row.id,
        name=row.name,
        role=row.role,
        owner=row.owner,
        state=row.state,
        online=row.state == "active" and seen_at_ms is not None and seen_at_ms > now_ms - LOST_S * 1000,
        seen_at_ms=seen_at_ms,
        settings=NodeSettings.model_validate(row.settings),
        report=NodeReport.model_validate(row.report),
        status=NodeStatus.model_validate(row.status),
        version=row.version,
    )


async def list_nodes(orchestrator: Orchestrator, after: str, limit: int) -> NodePage:
    """List nodes by name."""
    async with orchestrator.read() as transaction:
        rows = await transaction.rows(_VIEW.where(NodeRow.name > after).order_by(NodeRow.name).limit(limit + 1))
    items = tuple(_view(row, transaction.now_ms) for row in rows[:limit])
    return NodePage(items=items, next=items[-1].name if len(rows) > limit else None)


async def show_node(orchestrator: Orchestrator, name: str) -> NodeView:
    """Return a node by name or id. Raises `NotFoundError`."""
    async with orchestrator.read() as transaction:
        row = await transaction.first(_VIEW.where(named(name)).order_by(NodeRow.id != name))
    if row is None:
        raise NotFoundError(f"no node {shown(name)}; try `bentpipe node ls`")
    return _view(row, transaction.now_ms)


async def change_node(orchestrator: Orchestrator, caller: Caller, name: str, change: NodeChange) -> NodeView:
    """Change settings of an own node; as admin of any. Raises `NotFoundError`, `ForbiddenError`."""
    async with orchestrator.write() as transaction:
        row = await transaction.first(
            select(NodeRow.id, NodeRow.owner_id, NodeRow.settings)
            .where(named(name))
            .order_by(NodeRow.id != name)
            .with_for_update()
        )
        if row is None:
            raise NotFoundError(f"no node {shown(name)}; try `bentpipe node ls`")
        if not caller.is_admin and row.owner_id != caller.user:
            raise ForbiddenError(f"the node {shown(name)} is another user's; expected an own one")
        changes = {key: entry for key, entry in change.to_dict().items() if entry is not None}
        settings = NodeSettings.check({**row.settings, **changes}, "settings")
        await transaction.execute(update(NodeRow).where(NodeRow.id == row.id).values(settings=settings.to_dict()))
        await audit.record(transaction, caller.name, "node.change", row.id, **changes)
        transaction.touch([row.id])
        transaction.wakes_planner = True
    return await show_node(orchestrator, row.id)


async def revoke_node(orchestrator: Orchestrator, caller: Caller, name: str) -> None:
    """Refuse a node (own, or as admin any) from now on; end its plans. Raises `NotFoundError`, `ForbiddenError`."""
    async with orchestrator.write() as transaction:
        row = await transaction.first(
            select(NodeRow.id, NodeRow.owner_id).where(named(name)).order_by(NodeRow.id != name)
        )
        if row is None:
            raise NotFoundError(f"no node {shown(name)}; try `bentpipe node ls`")
        if not caller.is_admin and row.owner_id != caller.user:
            raise ForbiddenError(f"the node {shown(name)} is another user's; expected an own one")
        # Plans before nodes, as the planner locks them: the two do not wait for each other.
        plans, runs = await end_plans_of_nodes(transaction, [row.id])
        await transaction.execute(update(NodeRow).where(NodeRow.id == row.id).values(state="revoked"))
        await audit.record(transaction, caller.name, "node.revoke", row.id, plans=plans, runs=runs)
        transaction.touch([row.id])
        transaction.wakes_planner = True
