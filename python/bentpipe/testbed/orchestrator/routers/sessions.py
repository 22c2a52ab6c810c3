"""Login and logout of the dashboard, and what each of its pages needs: a session with a scope."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from bentpipe.testbed.orchestrator.routers.access import Needs, orchestrator_of
from bentpipe.testbed.orchestrator.routers.bodies import read_body
from bentpipe.testbed.orchestrator.routers.html import PageRoute, page
from bentpipe.testbed.orchestrator.security.roles import SCOPES, Caller
from bentpipe.testbed.orchestrator.security.sessions import SESSION_MS
from bentpipe.testbed.orchestrator.services import users
from bentpipe.testbed.orchestrator.services.refusals import ForbiddenError, UnauthenticatedError

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.security.sessions import Sessions

COOKIE = "bentpipe_session"
"""Name of the session's cookie."""
PUBLIC_PAGES = frozenset({"/login", "/login/oidc", "/login/oidc/callback", "/static/{name}"})
"""Pages without a session: none says anything of the testbed's contents."""
_OWN_PATH = re.compile(r"/(?![/\\])[\w./?=&%~-]{0,300}\Z")
_LARGEST_FORM = 16 * 1024

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def sessions_of(request: Request) -> Sessions:
    """Return the sessions of an application."""
    return orchestrator_of(request).sessions


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that one of our own pages sent. Raises `ForbiddenError`, `TooLargeError`."""
    # A cookie of SameSite=Strict still comes from another port of the same host, so a page must say that it is ours.
    if request.headers.get("sec-fetch-site", "") != "same-origin" and "origin" not in request.headers:
        raise ForbiddenError("a form of another page; expected one of the dashboard")
    text = (await read_body(request, _LARGEST_FORM)).decode("utf-8", "replace")
    return {key: values[-1].strip() for key, values in parse_qs(text, max_num_fields=20).items()}


class Looks(Needs):
    """A dependency of a page: the session's token has a scope."""

    async def __call__(self, request: Request) -> Caller:
        """Return the caller. Raises `UnauthenticatedError` or `ForbiddenError`."""
        caller = await caller_of(request)
        if caller is None:
            raise UnauthenticatedError("no session; log in")
        request.state.caller = caller
        if not caller.may(self.scope):
            allowed = ", ".join(sorted(SCOPES[self.scope]))
            raise ForbiddenError(f"the role {caller.role!r} may not do that; expected {allowed}")
        return caller


async def caller_of(request: Request) -> Caller | None:
    """Return who has the request's session; None: nobody."""
    token_id = sessions_of(request).token_of(request.cookies.get(COOKIE, ""))
    if token_id is None:
        return None
    try:
        return await users.authenticate_id(orchestrator_of(request), token_id)
    except UnauthenticatedError:
        return None


@router.get("/login", response_class=Response)
async def login_page(request: Request, code: str = "", then: str = "/") -> Response:
    """Show the form. A code is used by its button only: a program that fetches links in advance does not use it up."""
    return login_form(request, code=code[:100], then=then)


@router.post("/login", response_class=Response)
async def login(request: Request) -> Response:
    """Begin a session with a token or a one-time code."""
    form = await read_form(request)
    then = own_path(form.get("then", "/"))
    sessions = sessions_of(request)
    token_id, problem = None, "the token is unknown, expired or revoked"
    if "code" in form:
        token_id, problem = sessions.take_code(form["code"]), "the link was used or is older than ten minutes"
    elif "token" in form:
        try:
            token_id = (await users.authenticate(orchestrator_of(request), form["token"])).token
        except UnauthenticatedError:
            token_id = None
    if token_id is None:
        return login_form(request, 401, problem=problem, then=then)
    answer = RedirectResponse(then, 303)
    is_secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    begin_session(answer, request, token_id, is_secure=is_secure)
    return answer


def login_form(request: Request, status: int = 200, *, problem: str = "", code: str = "", then: str = "/") -> Response:
    """Return the page that logs in, with the reason why a login failed."""
    oidc = orchestrator_of(request).oidc
    provider = "" if oidc is None else oidc.name
    content = {"code": code, "then": own_path(then), "problem": problem, "provider": provider}
    return page("login.html", request, status, title="Log in", **content)


def begin_session(answer: Response, request: Request, token_id: str, *, is_secure: bool) -> None:
    """Set the cookie of a new session of a token."""
    answer.set_cookie(
        COOKIE,
        sessions_of(request).begin(token_id),
        max_age=SESSION_MS // 1000,
        httponly=True,
        samesite="strict",
        secure=is_secure,
    )


@router.post("/logout", response_class=Response)
async def logout(request: Request) -> Response:
    """End the session."""
    await read_form(request)
    sessions_of(request).end(request.cookies.get(COOKIE, ""))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE)
    return answer


def own_path(path: str) -> str:
    """Return a path of this host, never another host's address."""
    return path if _OWN_PATH.match(path) else "/"
