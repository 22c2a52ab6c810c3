"""``/v1/runs``: runs, their events, their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bentpipe.errors import shown
from bentpipe.testbed.orchestrator.routers.access import Needs, orchestrator_of
from bentpipe.testbed.orchestrator.routers.answers import json_answer
from bentpipe.testbed.orchestrator.routers.parameters import After, Limit, Word
from bentpipe.testbed.orchestrator.security.roles import Caller
from bentpipe.testbed.orchestrator.services import listings
from bentpipe.testbed.orchestrator.services.refusals import NotFoundError
from bentpipe.testbed.schemas.experiment_views import RunDetail, RunPage
from bentpipe.testbed.schemas.figures import RunFigures
from bentpipe.testbed.schemas.states import RunState

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Orchestrator

router = APIRouter(tags=["runs"])
Reader = Annotated[Caller, Depends(Needs("read"))]
At = Annotated[int | None, Query(ge=0, le=253_402_300_799_000)]


@router.get("/v1/runs", response_model=RunPage)
async def list_runs(
    request: Request,
    caller: Reader,
    after: After = "",
    limit: Limit = 100,
    experiment: Word = None,
    node: Word = None,
    state: RunState | None = None,
    from_at_ms: At = None,
    to_at_ms: At = None,
) -> Response:
    """List runs by start."""
    page = await listings.list_runs(
        orchestrator_of(request),
        after,
        limit,
        experiment=experiment,
        node=node,
        state=state,
        from_at_ms=from_at_ms,
        to_at_ms=to_at_ms,
        user=caller.user,
    )
    return json_answer(page)


@router.get("/v1/runs/{run}", response_model=RunDetail)
async def show_run(run: str, request: Request, _: Reader) -> Response:
    """Return a run with its ends and what agents reported."""
    return json_answer(await listings.show_run(orchestrator_of(request), run))


@router.get("/v1/runs/{run}/figures", response_model=RunFigures)
async def run_figures(run: str, request: Request, _: Reader) -> Response:
    """Return values over time from the tables of a run's results, thinned to 400 points a line, with quantiles."""
    orchestrator = orchestrator_of(request)
    figures = await orchestrator.figures.of_run(await listings.show_run(orchestrator, run))
    assert figures is not None
    return json_answer(figures)


@router.get("/v1/runs/{run}/files/{end}/{path:path}", response_class=Response)
async def result_file(run: str, end: str, path: str, request: Request, _: Reader) -> Response:
    """Return a file of a result."""
    return await file_answer(orchestrator_of(request), run, end, path)


async def file_answer(orchestrator: Orchestrator, run: str, end: str, path: str) -> Response:
    """Return a file of a result as a download. Raises `NotFoundError`."""
    detail = await listings.show_run(orchestrator, run)
    committed = next((each for each in detail.ends if each.end == end and path in each.files), None)
    if committed is None or detail.location is None:
        raise NotFoundError(f"the {shown(end)} end has no file {shown(path)}")
    folder = detail.location if end == "client" else f"{detail.location}/server"
    parts = orchestrator.storage.stream(f"{folder}/{path}")
    return StreamingResponse(
        parts, media_type="application/octet-stream", headers={"Content-Disposition": "attachment"}
    )
