"""The application for users: its routers, errors, limits and headers."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from bentpipe.errors import BentpipeError, UserError, shown
from bentpipe.testbed.orchestrator import metrics
from bentpipe.testbed.orchestrator.logs import redact
from bentpipe.testbed.orchestrator.routers import (
    answers,
    calendar,
    experiments,
    files,
    html,
    node_profiles,
    nodes,
    oidc,
    page_actions,
    page_streams,
    pages,
    runs,
    sessions,
    tokens,
)
from bentpipe.testbed.orchestrator.routers.access import Needs
from bentpipe.testbed.orchestrator.routers.agents import WithHeaders
from bentpipe.testbed.orchestrator.routers.documents import add_schemas
from bentpipe.testbed.orchestrator.routers.head_requests import HeadAsGet
from bentpipe.testbed.orchestrator.routers.hosts import HostGuard

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from bentpipe.testbed.orchestrator.context import Orchestrator
    from bentpipe.testbed.orchestrator.services.telemetry import Telemetry

log = logging.getLogger("bentpipe.testbed")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
ROUTERS = (
    experiments.router,
    runs.router,
    nodes.router,
    node_profiles.router,
    calendar.router,
    files.router,
    tokens.router,
)
PAGE_ROUTERS = (
    sessions.router,
    oidc.router,
    page_streams.router,
    page_actions.router,
    node_profiles.page_router,
    pages.router,
)
"""The dashboard; sessions instead of bearer tokens."""


def users_app(orchestrator: Orchestrator, telemetry: Telemetry, host: str, public: str | None = None) -> ASGIApp:
    """Return the application of the users' port, with its guards.

    Args:
        orchestrator: The orchestrator.
        telemetry: Newest samples of nodes.
        host: Address that it listens on.
        public: Name by which a proxy before it is called; None: none.
    """
    return HostGuard(Timed(WithHeaders(HeadAsGet(bare_app(orchestrator, telemetry)))), host, public)


def bare_app(orchestrator: Orchestrator, telemetry: Telemetry) -> FastAPI:
    """Return the application without guards, with all its routes."""
    from bentpipe import __version__

    app = FastAPI(
        title="bentpipe testbed",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        exception_handlers={
            BentpipeError: answers.on_error,
            RequestValidationError: _on_validation,
            HTTPException: _on_http_error,
            **answers.HANDLERS,
        },
    )
    app.state.orchestrator, app.state.telemetry = orchestrator, telemetry
    for router in (*ROUTERS, *PAGE_ROUTERS):
        app.include_router(router)

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        async with orchestrator.database.read():
            return Response("ok\n", media_type="text/plain")

    @app.get("/metrics", include_in_schema=False, dependencies=[Depends(Needs("read"))])
    async def metrics_of_all() -> Response:
        return Response(await metrics.exposition(orchestrator), media_type="text/plain; version=0.0.4")

    @app.get("/v1/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return JSONResponse(add_schemas(app))

    return app


async def _on_http_error(request: Request, error: Exception) -> Response:
    """Answer an unknown address: with a page to a browser, else with a problem."""
    if html.wants_page(request):
        return html.error_page(request, error)
    return await answers.on_http_error(request, error)


async def _on_validation(_: Request, error: Exception) -> Response:
    """Turn the framework's error of a parameter into bentpipe's one line."""
    first: dict[str, Any] = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    place, name = (*first.get("loc", ()), "", "")[:2]
    problem = f"{name} is missing" if first.get("type") == "missing" else f"{name} is {shown(first.get('input'))}"
    expected = str(first.get("msg", "")).removeprefix("Input should be ").removeprefix("Value error, ")
    return answers.problem_of(UserError(problem, where=str(place), expected=expected))


class Timed:
    """Counts and logs requests: never their headers, parameters or bodies."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = time.monotonic(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            took_s = time.monotonic() - begin
            metrics.REQUESTS.labels(scope["method"] if scope["method"] in METHODS else "other", str(status)).observe(
                took_s
            )
            if scope["path"] not in ("/healthz", "/metrics"):
                log.info(
                    "request",
                    extra={
                        "method": scope["method"],
                        "path": redact(scope["path"])[:200],
                        "status": status,
                        "ms": round(took_s * 1000, 1),
                    },
                )
