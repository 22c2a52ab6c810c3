"""``/v1/availability``, ``/v1/triggers``, ``/v1/events``, ``/v1/audit``: what happens when."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from bentpipe.testbed.orchestrator.routers.access import Needs, orchestrator_of
from bentpipe.testbed.orchestrator.routers.answers import json_answer
from bentpipe.testbed.orchestrator.routers.parameters import After, AtMs, Limit
from bentpipe.testbed.orchestrator.routers.streams import EventStream
from bentpipe.testbed.orchestrator.security.roles import Caller
from bentpipe.testbed.orchestrator.services import listings
from bentpipe.testbed.orchestrator.services.availability import free_times, to_json
from bentpipe.testbed.orchestrator.services.refusals import RefusedError
from bentpipe.testbed.schemas.experiment_views import FiringPage, TriggerPage
from bentpipe.testbed.schemas.views import AuditPage, AvailabilityPage

router = APIRouter(tags=["calendar"])
Reader = Annotated[Caller, Depends(Needs("read"))]


@router.get("/v1/availability", response_model=AvailabilityPage)
async def availability(
    request: Request,
    _: Reader,
    node: Annotated[list[str], Query(min_length=1, max_length=20, description="Names of nodes.")],
    from_at_ms: AtMs,
    to_at_ms: AtMs,
    least_ms: Annotated[int, Query(ge=0, le=31 * 86_400_000)] = 0,
) -> Response:
    """Say when nodes have free lanes."""
    free = await free_times(orchestrator_of(request), node, from_at_ms, to_at_ms, least_ms)
    return Response(to_json(free), media_type="application/json")


@router.get("/v1/triggers", response_model=TriggerPage)
async def list_triggers(request: Request, _: Reader, after: After = "", limit: Limit = 100) -> Response:
    """List triggers, newest first."""
    return json_answer(await listings.list_triggers(orchestrator_of(request), after, limit))


@router.get("/v1/triggers/{trigger}/firings", response_model=FiringPage)
async def list_firings(
    trigger: str,
    request: Request,
    _: Reader,
    after: Annotated[int, Query(ge=0, le=253_402_300_799_000)] = 0,
    limit: Limit = 100,
) -> Response:
    """List firings of a trigger, newest first."""
    return json_answer(await listings.list_firings(orchestrator_of(request), trigger, after, limit))


@router.get("/v1/events", response_class=Response)
async def events(request: Request, caller: Reader) -> Response:
    """Stream ``changed`` with a number that grows whenever something changed (server-sent events)."""
    wakeups = orchestrator_of(request).wakeups

    async def may_look() -> bool:
        try:
            await Needs("read")(request)
        except RefusedError:
            return False
        return True

    def number() -> str | None:
        return None if wakeups.ended else str(wakeups.number)

    return EventStream(wakeups.of_all, number, "changed", caller=caller.user, may_look=may_look)


@router.get("/v1/audit", response_model=AuditPage)
async def audit(
    request: Request, _: Annotated[Caller, Depends(Needs("audit"))], after: After = "", limit: Limit = 100
) -> Response:
    """List who did what, newest first."""
    return json_answer(await listings.list_audit(orchestrator_of(request), after, limit))
