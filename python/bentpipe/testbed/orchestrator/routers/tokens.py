"""``/v1/tokens``, ``/v1/users``: tokens of users and of nodes that join."""

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
from bentpipe.testbed.orchestrator.services import joining, users
from bentpipe.testbed.schemas.views import (
    CallerView,
    JoinToken,
    JoinTokenRequest,
    NewToken,
    TokenPage,
    TokenRequest,
    UserChange,
    UserPage,
    UserView,
)

router = APIRouter(tags=["tokens"])


@router.post("/v1/tokens/join", response_model=JoinToken, status_code=201, openapi_extra=body(JoinTokenRequest))
async def make_join_token(request: Request, caller: Annotated[Caller, Depends(Needs("join"))]) -> Response:
    """Make a join token for a node of the caller."""
    wanted = await read_record(request, JoinTokenRequest)
    orchestrator = orchestrator_of(request)
    token = await joining.issue_join_token(
        orchestrator, who=caller.name, owner=caller.user, name=wanted.name, role=wanted.role
    )
    url = orchestrator.agents_url
    answer = JoinToken(
        token=token,
        url=url,
        command=f"bentpipe node join {url} {token}",
        expires_at_ms=orchestrator.clock() + joining.JOIN_TOKEN_MS,
    )
    return json_answer(answer, 201)


@router.post("/v1/tokens", response_model=NewToken, status_code=201, openapi_extra=body(TokenRequest))
async def make_token(request: Request, caller: Annotated[Caller, Depends(Needs("users"))]) -> Response:
    """Make a token for a user, who is made if unknown."""
    wanted = await read_record(request, TokenRequest)
    async with orchestrator_of(request).write() as transaction:
        token, token_id = await users.issue(transaction, wanted.name, wanted.role, who=caller.name, days=wanted.days)
    return json_answer(NewToken(id=token_id, token=token, name=wanted.name, role=wanted.role), 201)


@router.get("/v1/tokens", response_model=TokenPage)
async def list_tokens(
    request: Request, caller: Annotated[Caller, Depends(Needs("own"))], after: After = "", limit: Limit = 100
) -> Response:
    """List own tokens; as admin all."""
    return json_answer(await users.list_tokens(orchestrator_of(request), caller, after, limit))


@router.get("/v1/users", response_model=UserPage)
async def list_users(
    request: Request, _: Annotated[Caller, Depends(Needs("users"))], after: After = "", limit: Limit = 100
) -> Response:
    """List users by name."""
    return json_answer(await users.list_users(orchestrator_of(request), after, limit))


@router.get("/v1/users/me", response_model=CallerView)
async def me(caller: Annotated[Caller, Depends(Needs("own"))]) -> Response:
    """Say who calls."""
    return json_answer(CallerView(name=caller.name, role=caller.role))


@router.patch("/v1/users/{name}", response_model=UserView, openapi_extra=body(UserChange))
async def change_user(name: str, request: Request, caller: Annotated[Caller, Depends(Needs("users"))]) -> Response:
    """Refuse all tokens of a user, or accept them."""
    change = await read_record(request, UserChange)
    return json_answer(await users.change_user(orchestrator_of(request), caller, name, disabled=change.disabled))


@router.delete("/v1/tokens/{token}", status_code=204)
async def revoke_token(token: str, request: Request, caller: Annotated[Caller, Depends(Needs("own"))]) -> Response:
    """Revoke an own token; as admin any."""
    await users.revoke(orchestrator_of(request), caller, token)
    return Response(status_code=204)
