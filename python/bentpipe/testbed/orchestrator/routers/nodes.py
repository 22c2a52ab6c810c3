"""``/v1/nodes``: the fleet."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from bentpipe.testbed.orchestrator.routers.access import Needs, orchestrator_of
from bentpipe.testbed.orchestrator.routers.answers import json_answer
from bentpipe.testbed.orchestrator.security.roles import Caller
from bentpipe.testbed.orchestrator.services import nodes
from bentpipe.testbed.schemas.views import LARGEST_PAGE, NodePage

router = APIRouter(tags=["nodes"])

Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="Most entries of the page.")]
After = Annotated[str, Query(max_length=100, description="`next` of the page before.")]


@router.get("/v1/nodes", response_model=NodePage)
async def list_nodes(
    request: Request, _: Annotated[Caller, Depends(Needs("read"))], after: After = "", limit: Limit = 100
) -> Response:
    """List nodes by name."""
    return json_answer(await nodes.list_nodes(orchestrator_of(request), after, limit))
