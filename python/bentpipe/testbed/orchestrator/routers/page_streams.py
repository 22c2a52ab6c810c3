"""The live stream of a node's page: rows of its telemetry once a second, while somebody looks."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bentpipe.testbed.orchestrator.routers.access import orchestrator_of
from bentpipe.testbed.orchestrator.routers.html import PageRoute
from bentpipe.testbed.orchestrator.routers.sessions import Looks, caller_of
from bentpipe.testbed.orchestrator.routers.streams import MOST_STREAMS, OPEN
from bentpipe.testbed.orchestrator.security.roles import Caller
from bentpipe.testbed.orchestrator.services import nodes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bentpipe.testbed.orchestrator.services.telemetry import Telemetry

router = APIRouter(route_class=PageRoute, include_in_schema=False)
EVERY_S = 1.0
"""Time between two looks [s]."""
CHECK_TURNS = 15
"""Looks between two checks of the session."""
LONGEST_S = 3600.0
"""After this time the page's script opens another stream [s]."""


@router.get("/nodes/{node}/stream", response_class=Response)
async def stream(node: str, request: Request, caller: Annotated[Caller, Depends(Looks("read"))]) -> Response:
    """Stream ``rows``: columns, and the rows since the last event."""
    view = await nodes.show_node(orchestrator_of(request), node)
    OPEN.check(caller.user, MOST_STREAMS)
    return StreamingResponse(
        _events(request, caller.user, view.id),
        media_type="text/event-stream; charset=utf-8",
        headers={"X-Accel-Buffering": "no"},
    )


async def _events(request: Request, user: str, node: str) -> AsyncIterator[str]:
    telemetry: Telemetry = request.app.state.telemetry
    last_ms = 0.0
    with OPEN.counted(user):
        for turn in range(int(LONGEST_S / EVERY_S)):
            if turn % CHECK_TURNS == CHECK_TURNS - 1 and await caller_of(request) is None:
                return  # the session is over, or its token was revoked
            columns, rows = await telemetry.look(node)
            fresh = [row for row in rows if (row[0] or 0.0) > last_ms] if columns[:1] == ("t_unix_ms",) else []
            if fresh or turn == 0:
                last_ms = max([last_ms, *(row[0] or 0.0 for row in fresh)])
                yield f"event: rows\ndata: {json.dumps({'columns': columns, 'rows': fresh}, allow_nan=False)}\n\n"
            elif turn % 15 == 0:
                yield ": ping\n\n"
            await asyncio.sleep(EVERY_S)
