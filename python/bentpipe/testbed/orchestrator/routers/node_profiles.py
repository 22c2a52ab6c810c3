"""``/v1/nodes/{node}/profile``, and the same for a browser: the Profile of a node's link."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from bentpipe.testbed.orchestrator.routers.access import Needs, orchestrator_of
from bentpipe.testbed.orchestrator.routers.html import PageRoute
from bentpipe.testbed.orchestrator.routers.parameters import AtMs
from bentpipe.testbed.orchestrator.routers.sessions import Looks
from bentpipe.testbed.orchestrator.security.roles import Caller
from bentpipe.testbed.orchestrator.services.node_profiles import Wish, make_profile

router = APIRouter(tags=["nodes"])
page_router = APIRouter(route_class=PageRoute, include_in_schema=False)
Reader = Annotated[Caller, Depends(Needs("read"))]
Viewer = Annotated[Caller, Depends(Looks("read"))]
Form = Annotated[
    Literal["parquet", "csv", "hypatia", "leoreplayer", "mahimahi", "netem", "starrynet"],
    Query(alias="format", description="`parquet`: the Profile; another: an archive (zip) with that format's files."),
]
Latency = Annotated[
    Literal["auto", "dish", "probes"],
    Query(description="Delays: the terminal's, probes of experiments, or those that cover more seconds."),
]
WINDOW_MS = 3_600_000
"""Length of the window without a start [ms]."""
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": _BINARY, "application/zip": _BINARY}}
}


def wish_of(
    request: Request,
    from_at_ms: AtMs | None = None,
    to_at_ms: AtMs | None = None,
    form: Form = "parquet",
    latency: Latency = "auto",
) -> Wish:
    """Return what the parameters ask for; without times, the last hour."""
    end = orchestrator_of(request).clock() if to_at_ms is None else to_at_ms
    begin = max(0, end - WINDOW_MS) if from_at_ms is None else from_at_ms
    return Wish(begin, end, form, latency)


Wished = Annotated[Wish, Depends(wish_of)]


@router.get("/v1/nodes/{node}/profile", response_class=Response, responses=_CONTENT)
async def node_profile(node: str, request: Request, _: Reader, wish: Wished) -> Response:
    """Make the Profile of a node's link from the results of a window; default: the last hour, at most a day."""
    return await _answer(request, node, wish)


@page_router.get("/nodes/{node}/profile", response_class=Response)
async def download_profile(node: str, request: Request, _: Viewer, wish: Wished) -> Response:
    """Return the Profile of a node's link as a download."""
    return await _answer(request, node, wish)


async def _answer(request: Request, node: str, wish: Wish) -> Response:
    made = await make_profile(orchestrator_of(request), node, wish)
    headers = {"Content-Disposition": f'attachment; filename="{made.name}"'}
    return Response(made.content, media_type=made.media_type, headers=headers)
