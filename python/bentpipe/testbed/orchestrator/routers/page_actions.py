"""Buttons of the dashboard: the same services as ``/v1``, then back to the page."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from bentpipe.errors import UserError, shown
from bentpipe.testbed.orchestrator.routers.access import orchestrator_of
from bentpipe.testbed.orchestrator.routers.html import PageRoute
from bentpipe.testbed.orchestrator.routers.sessions import Looks, read_form
from bentpipe.testbed.orchestrator.security.roles import Caller
from bentpipe.testbed.orchestrator.services import experiments, listings, nodes
from bentpipe.testbed.schemas.experiment_views import Extension
from bentpipe.testbed.schemas.views import NodeChange

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Host = Annotated[Caller, Depends(Looks("nodes"))]
Submitter = Annotated[Caller, Depends(Looks("experiments"))]
HOUR_MS = 3_600_000
_SETTINGS = ("paused", "draining", "scavenger")


@router.post("/nodes/{node}/settings", response_class=Response)
async def change_node(node: str, request: Request, caller: Host) -> Response:
    """Pause or drain a node, or set its scavenger mode."""
    form = await read_form(request)
    changes = {key: form[key] == "on" for key in _SETTINGS if form.get(key) in ("on", "off")}
    view = await nodes.change_node(orchestrator_of(request), caller, node, NodeChange.check(changes, "settings"))
    return RedirectResponse(f"/nodes/{quote(view.name, safe='')}", 303)


@router.post("/experiments/{experiment}/cancel", response_class=Response)
async def cancel(experiment: str, request: Request, caller: Submitter) -> Response:
    """Cancel an experiment."""
    await read_form(request)
    key = await experiments.cancel(orchestrator_of(request), caller, experiment)
    return RedirectResponse(f"/experiments/{key}", 303)


@router.post("/experiments/{experiment}/extend", response_class=Response)
async def extend(experiment: str, request: Request, caller: Submitter) -> Response:
    """Give an experiment more hours, or another number of runs."""
    form = await read_form(request)
    orchestrator = orchestrator_of(request)
    hours, runs = _whole(form, "hours", 8760), _whole(form, "runs", 1_000_000)
    view = await listings.show_experiment(orchestrator, experiment, caller.user)
    until_at_ms = None if hours is None else view.until_at_ms + hours * HOUR_MS
    extension = Extension(until_at_ms=until_at_ms, runs=runs)
    key = await experiments.extend(orchestrator, caller, view.id, extension)
    return RedirectResponse(f"/experiments/{key}", 303)


def _whole(form: dict[str, str], key: str, most: int) -> int | None:
    text = form.get(key, "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not 1 <= int(text) <= most:
        raise UserError(shown(text), where=key, expected=f"a whole number from 1 to {most}")
    return int(text)
