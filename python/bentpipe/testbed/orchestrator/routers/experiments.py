"""``/v1/experiments``: submission and what follows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from bentpipe.testbed.orchestrator.routers.access import Needs, orchestrator_of
from bentpipe.testbed.orchestrator.routers.answers import json_answer
from bentpipe.testbed.orchestrator.routers.bodies import read_body, read_record
from bentpipe.testbed.orchestrator.routers.documents import body
from bentpipe.testbed.orchestrator.routers.parameters import After, Limit, Word
from bentpipe.testbed.orchestrator.security.roles import Caller
from bentpipe.testbed.orchestrator.services import dry_runs, experiments, listings
from bentpipe.testbed.orchestrator.services.idempotency import Note, once
from bentpipe.testbed.schemas.experiment_views import (
    DryRun,
    ExperimentDetail,
    ExperimentPage,
    ExperimentSubmission,
    Extension,
)

router = APIRouter(tags=["experiments"])
Submitter = Annotated[Caller, Depends(Needs("experiments"))]
Reader = Annotated[Caller, Depends(Needs("read"))]


async def _once(
    request: Request,
    caller: Caller,
    content: object,
    act: Callable[[Note], Awaitable[tuple[int, str]]],
    show: Callable[[str], Awaitable[tuple[int, str]]] | None = None,
) -> Response:
    """Act once for the request's ``Idempotency-Key``."""
    fingerprint = f"{request.method} {request.url.path} {content}".encode()
    key = request.headers.get("idempotency-key")
    status, text = await once(orchestrator_of(request), caller.user, key, fingerprint, act, show)
    return Response(text, status, media_type="application/json")


@router.post(
    "/v1/experiments", response_model=ExperimentDetail, status_code=201, openapi_extra=body(ExperimentSubmission)
)
async def submit(request: Request, caller: Submitter) -> Response:
    """Submit an experiment. With the header ``Idempotency-Key`` the request may be repeated."""
    submission = await read_record(request, ExperimentSubmission)
    orchestrator = orchestrator_of(request)

    async def show(key: str) -> tuple[int, str]:
        return 201, (await listings.show_experiment(orchestrator, key)).model_dump_json()

    async def act(note: Note) -> tuple[int, str]:
        return await show(await experiments.submit(orchestrator, caller, submission.text, note))

    return await _once(request, caller, submission, act, show)


@router.post("/v1/experiments/dry-run", response_model=DryRun, openapi_extra=body(ExperimentSubmission))
async def dry_run(request: Request, caller: Submitter) -> Response:
    """Say what a submission would do: nodes, the first starts, bytes, conflicts by name, the next free slot."""
    submission = await read_record(request, ExperimentSubmission)
    return json_answer(await dry_runs.dry_run(orchestrator_of(request), caller, submission.text))


@router.get("/v1/experiments", response_model=ExperimentPage)
async def list_experiments(
    request: Request,
    _: Reader,
    after: After = "",
    limit: Limit = 100,
    state: Literal["active", "ended", "canceled"] | None = None,
    owner: Word = None,
) -> Response:
    """List experiments, newest first."""
    return json_answer(await listings.list_experiments(orchestrator_of(request), after, limit, state, owner))


@router.get("/v1/experiments/{experiment}", response_model=ExperimentDetail)
async def show_experiment(experiment: str, request: Request, caller: Reader) -> Response:
    """Return an experiment by id, or the newest of a name: an own one before those of others."""
    return json_answer(await listings.show_experiment(orchestrator_of(request), experiment, caller.user))


@router.post("/v1/experiments/{experiment}/cancel", response_model=ExperimentDetail)
async def cancel(experiment: str, request: Request, caller: Submitter) -> Response:
    """Cancel an own experiment; as admin any."""
    orchestrator = orchestrator_of(request)
    await read_body(request, 1024)

    async def act(_: Note) -> tuple[int, str]:
        key = await experiments.cancel(orchestrator, caller, experiment)
        return 200, (await listings.show_experiment(orchestrator, key)).model_dump_json()

    return await _once(request, caller, "", act)


@router.post("/v1/experiments/{experiment}/extend", response_model=ExperimentDetail, openapi_extra=body(Extension))
async def extend(experiment: str, request: Request, caller: Submitter) -> Response:
    """Give an own experiment more time or runs."""
    extension = await read_record(request, Extension)
    orchestrator = orchestrator_of(request)

    async def act(_: Note) -> tuple[int, str]:
        key = await experiments.extend(orchestrator, caller, experiment, extension)
        return 200, (await listings.show_experiment(orchestrator, key)).model_dump_json()

    return await _once(request, caller, extension, act)
