"""Login of the dashboard at an identity provider: there, and back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, urlsplit

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from bentpipe.errors import UserError
from bentpipe.testbed.orchestrator.routers.access import orchestrator_of
from bentpipe.testbed.orchestrator.routers.html import PageRoute, page
from bentpipe.testbed.orchestrator.routers.sessions import begin_session, login_form, own_path
from bentpipe.testbed.orchestrator.security.addresses import is_loopback
from bentpipe.testbed.orchestrator.security.oidc.attempts import ATTEMPT_MS
from bentpipe.testbed.orchestrator.security.oidc.errors import LoginRefusedError, ProviderError
from bentpipe.testbed.orchestrator.security.oidc.login import CALLBACK
from bentpipe.testbed.orchestrator.services import oidc_logins
from bentpipe.testbed.orchestrator.services.refusals import ForbiddenError, NotFoundError

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.security.oidc.login import OidcLogin

log = logging.getLogger("bentpipe.testbed")
ATTEMPT_COOKIE = "bentpipe_oidc"
"""Name of the cookie that binds a login to a browser."""
_PATH = "/login/oidc"

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def _login_of(request: Request) -> OidcLogin:
    login = orchestrator_of(request).oidc
    if login is None:
        raise NotFoundError("this testbed has no login at a provider; use a token")
    return login


@router.get(_PATH, response_class=Response)
async def begin(request: Request, then: str = "/") -> Response:
    """Send the browser to the provider."""
    login, then = _login_of(request), own_path(then)
    ours = urlsplit(login.dashboard).hostname or ""
    # Cookies of "localhost" do not come back at 127.0.0.1, to which the provider sends the browser.
    if is_loopback(ours) and is_loopback(request.url.hostname or "") and request.url.hostname != ours:
        return RedirectResponse(f"{login.dashboard}{_PATH}?then={quote(then, safe='')}", 303)
    try:
        address, cookie = await login.begin(then)
    except (ProviderError, UserError) as error:
        return _out_of_order(request, error, then)
    answer = RedirectResponse(address, 303)
    # Lax: the provider's redirect comes from another site and must bring it.
    answer.set_cookie(
        ATTEMPT_COOKIE,
        cookie,
        max_age=ATTEMPT_MS // 1000,
        path=_PATH,
        httponly=True,
        samesite="lax",
        secure=login.is_secure,
    )
    return answer


@router.get(CALLBACK, response_class=Response)
async def finish(request: Request) -> Response:
    """Begin a session for who came back from the provider."""
    login, orchestrator = _login_of(request), orchestrator_of(request)
    subject = ""
    try:
        query = parse_qs(request.url.query, keep_blank_values=True, max_num_fields=20)
        identity, role, then = await login.finish(
            request.cookies.get(ATTEMPT_COOKIE, ""), query, lambda attempt: oidc_logins.use(orchestrator, attempt)
        )
        subject = identity.key
        token_id = await oidc_logins.log_in(orchestrator, identity, role)
    except (LoginRefusedError, ForbiddenError) as error:
        await orchestrator.oidc_refusals.note(orchestrator, subject, str(error))
        answer = login_form(request, 403, problem=str(error))
    except (ProviderError, UserError) as error:
        answer = _out_of_order(request, error, "/")
    except ValueError:  # too many parameters
        answer = login_form(request, 403, problem="the provider's answer has too many parameters")
    else:
        # A redirect would count as the provider's, and browsers would not send the strict cookie of the session.
        answer = page("continue.html", request, then=own_path(then), title="Logged in")
        answer.headers["Referrer-Policy"] = "no-referrer"  # this page's own address holds the code
        answer.headers["Refresh"] = f"0; url={own_path(then)}"
        begin_session(answer, request, token_id, is_secure=login.is_secure)
    answer.delete_cookie(ATTEMPT_COOKIE, path=_PATH)
    return answer


def _out_of_order(request: Request, error: Exception, then: str) -> Response:
    """Say in one line that the login at the provider does not work now; tokens do."""
    log.warning("OIDC: %s", error)
    line = str(error) if isinstance(error, ProviderError) else "its file of roles has a mistake, which the log shows"
    return login_form(request, 502, problem=f"the login at the provider does not work now: {line}", then=then)
