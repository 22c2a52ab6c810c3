"""Pages as answers: rendering, their headers, and errors as pages."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from bentpipe.errors import BentpipeError
from bentpipe.testbed.dashboard.rendering import POLICY, render
from bentpipe.testbed.orchestrator.routers import answers
from bentpipe.testbed.orchestrator.services.refusals import UnauthenticatedError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.requests import Request

HEADERS = {
    "Content-Security-Policy": POLICY,
    # With no-referrer browsers send forms with the origin "null", which cannot be told from another page's.
    "Referrer-Policy": "same-origin",
    "Vary": "Cookie, HX-Request",
}
"""Headers of every page."""


def page(template: str, request: Request, status: int = 200, **content: Any) -> Response:  # noqa: ANN401 - content
    """Return a page."""
    caller = getattr(request.state, "caller", None)
    now_ms = request.app.state.orchestrator.clock()
    text = render(template, caller=caller, path=request.url.path, now_ms=now_ms, **content)
    return Response(text, status, media_type="text/html; charset=utf-8", headers=HEADERS)


class PageRoute(APIRoute):
    """A route whose errors are pages, in one line; a page without a session leads to the login."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            try:
                return await handle(request)
            except UnauthenticatedError:
                if "hx-request" in request.headers:  # part of a page: the whole page goes to the login
                    return Response(status_code=401, headers={"HX-Refresh": "true"})
                return RedirectResponse(login_address(request), 303)
            except (BentpipeError, RequestValidationError, HTTPException) as error:
                return error_page(request, error)

        return guarded


def error_page(request: Request, error: Exception) -> Response:
    """Return an error as a page: its one line."""
    if isinstance(error, RequestValidationError):
        status, text = 422, "the address has a parameter of another form"
    elif isinstance(error, HTTPException):
        status = error.status_code
        text = "there is no such page" if status == 404 else str(error.detail)
    else:
        status, text = answers.status_and_text(error)
    title = "Not there" if status == 404 else HTTPStatus(status).phrase
    answer = page("error.html", request, status, title=title, text=text)
    answer.headers["HX-Reswap"] = "none"  # a part of a page stays as it is
    return answer


def wants_page(request: Request) -> bool:
    """Return whether an answer should be a page: a browser asks, and not for the interface."""
    return not request.url.path.startswith("/v1/") and "text/html" in request.headers.get("accept", "")


def login_address(request: Request) -> str:
    """Return the address of the login that leads back to a page."""
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return "/login" if request.method != "GET" or wanted == "/" else f"/login?then={quote(wanted, safe='')}"
