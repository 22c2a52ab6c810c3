"""``/v1/nodes``: the fleet."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from bentpipe.testbed.orchestrator.routers.access import Needs, orchestrator_of
from bentpipe.testbed.orchestrator.routers.answers import json_answer
from bentpipe.testbed.orchestrator.routers.bodies import read_record
from bentpipe.testbed.orchestrator.routers.documents import body
from bentpipe.testbed.orchestrator.routers.parameters import After, Limit
from bentpipe.testbed.orchestrator.security.roles import Caller
from bentpipe.testbed.orchestrator.services import listings, nodes
from bentpipe.testbed.orchestrator.services.telemetry import Telemetry
from bentpipe.testbed.schemas.agent_protocol import TelemetryBatch
from bentpipe.testbed.schemas.experiment_views import NodeEvents
from bentpipe.testbed.schemas.views import NodeChange, NodePage, NodeView

router = APIRouter(tags=["nodes"])
Reader = Annotated[Caller, Depends(Needs("read"))]
Host = Annotated[Caller, Depends(Needs("nodes"))]


@router.get("/v1/nodes", response_model=NodePage)
async def list_nodes(request: Request, _: Reader, after: After = "", limit: Limit = 100) -> Response:
    """List nodes by name."""
    return json_answer(await nodes.list_nodes(orchestrator_of(request), after, limit))


@router.get("/v1/nodes/{node}", response_model=NodeView)
async def show_node(node: str, request: Request, _: Reader) -> Response:
    """Return a node by name or id."""
    return json_answer(await nodes.show_node(orchestrator_of(request), node))


@router.patch("/v1/nodes/{node}", response_model=NodeView, openapi_extra=body(NodeChange))
async def change_node(node: str, request: Request, caller: Host) -> Response:
    """Change settings of an own node; as admin of any."""
    change = await read_record(request, NodeChange)
    return json_answer(await nodes.change_node(orchestrator_of(request), caller, node, change))


@router.delete("/v1/nodes/{node}", status_code=204)
async def revoke_node(node: str, request: Request, caller: Host) -> Response:
    """Refuse an own node from now on; as admin any."""
    await nodes.revoke_node(orchestrator_of(request), caller, node)
    return Response(status_code=204)


@router.get("/v1/nodes/{node}/events", response_model=NodeEvents)
async def node_events(node: str, request: Request, _: Reader, limit: Limit = 100) -> Response:
    """Return what a node reported, newest first."""
    await nodes.show_node(orchestrator_of(request), node)
    return json_answer(NodeEvents(items=await listings.node_events(orchestrator_of(request), node, limit)))


@router.get("/v1/nodes/{node}/telemetry", response_model=TelemetryBatch)
async def node_telemetry(node: str, request: Request, _: Reader) -> Response:
    """Return the newest samples of a node; it then sends once a second for a minute."""
    view = await nodes.show_node(orchestrator_of(request), node)
    telemetry: Telemetry = request.app.state.telemetry
    columns, rows = await telemetry.look(view.id)
    return json_answer(TelemetryBatch(columns=columns, rows=tuple(rows)))
