"""``/v1/profiles``, ``/v1/images``: what users bring."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from bentpipe.testbed.orchestrator.routers.access import Needs, orchestrator_of
from bentpipe.testbed.orchestrator.routers.answers import json_answer
from bentpipe.testbed.orchestrator.routers.bodies import read_body, read_record
from bentpipe.testbed.orchestrator.routers.documents import body
from bentpipe.testbed.orchestrator.routers.parameters import After, Limit
from bentpipe.testbed.orchestrator.security.roles import Caller
from bentpipe.testbed.orchestrator.services import files
from bentpipe.testbed.schemas.views import (
    ImagePage,
    ImageRequest,
    ImageReview,
    ImageView,
    ProfilePage,
    ProfileView,
)

router = APIRouter(tags=["files"])
Reader = Annotated[Caller, Depends(Needs("read"))]
Submitter = Annotated[Caller, Depends(Needs("experiments"))]
_PARQUET = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get("/v1/profiles", response_model=ProfilePage)
async def list_profiles(request: Request, _: Reader, after: After = "", limit: Limit = 100) -> Response:
    """List Profiles by name."""
    return json_answer(await files.list_profiles(orchestrator_of(request), after, limit))


@router.put("/v1/profiles/{name}", response_model=ProfileView, openapi_extra=_PARQUET)
async def put_profile(name: str, request: Request, caller: Submitter) -> Response:
    """Store a Profile (Parquet) under a name, once."""
    content = await read_body(request, files.LARGEST_PROFILE)
    return json_answer(await files.put_profile(orchestrator_of(request), caller, name, content))


@router.get("/v1/images", response_model=ImagePage)
async def list_images(request: Request, _: Reader, after: After = "", limit: Limit = 100) -> Response:
    """List container images."""
    return json_answer(await files.list_images(orchestrator_of(request), after, limit))


@router.post("/v1/images", response_model=ImageView, status_code=201, openapi_extra=body(ImageRequest))
async def request_image(request: Request, caller: Submitter) -> Response:
    """Ask for the review of a container image."""
    wanted = await read_record(request, ImageRequest)
    return json_answer(await files.request_image(orchestrator_of(request), caller, wanted.reference), 201)


@router.post("/v1/images/review", response_model=ImageView, openapi_extra=body(ImageReview))
async def review_image(request: Request, caller: Annotated[Caller, Depends(Needs("images"))]) -> Response:
    """Approve or refuse a container image."""
    review = await read_record(request, ImageReview)
    return json_answer(await files.review_image(orchestrator_of(request), caller, review))
