"""What each route needs: a scope, or nothing. Every route states it; a test looks that none forgets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request

from bentpipe.testbed.orchestrator.security.roles import SCOPES, Caller
from bentpipe.testbed.orchestrator.services import users
from bentpipe.testbed.orchestrator.services.refusals import ForbiddenError, UnauthenticatedError

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Orchestrator

PUBLIC = frozenset({"/healthz", "/v1/openapi.json"})
"""Paths without a token: neither says anything of the testbed's contents."""


def orchestrator_of(request: Request) -> Orchestrator:
    """Return the orchestrator of an application."""
    orchestrator: Orchestrator = request.app.state.orchestrator
    return orchestrator


@dataclass(frozen=True)
class Needs:
    """A dependency of a route: the caller's token has a scope.

    Attributes:
        scope: A key of `SCOPES`.
    """

    scope: str

    def __post_init__(self) -> None:
        """Refuse an unknown scope when the route is made."""
        if self.scope not in SCOPES:
            raise ValueError(self.scope)

    async def __call__(self, request: Request) -> Caller:
        """Return the caller. Raises `UnauthenticatedError` or `ForbiddenError`."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise UnauthenticatedError("no token; expected the header Authorization: Bearer TOKEN")
        caller = await users.authenticate(orchestrator_of(request), token.strip())
        if not caller.may(self.scope):
            allowed = ", ".join(sorted(SCOPES[self.scope]))
            raise ForbiddenError(f"the role {caller.role!r} may not do that; expected {allowed}")
        return caller
