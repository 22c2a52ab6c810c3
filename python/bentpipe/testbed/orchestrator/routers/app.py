"""The application for users: its routers, errors, limits and headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from bentpipe.errors import BentpipeError, UserError, shown
from bentpipe.testbed.orchestrator.routers import answers, calendar, experiments, files, nodes, runs, tokens
from bentpipe.testbed.orchestrator.routers.agents import WithHeaders
from bentpipe.testbed.orchestrator.routers.documents import add_schemas
from bentpipe.testbed.orchestrator.routers.hosts import HostGuard

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from bentpipe.testbed.orchestrator.context import Orchestrator
    from bentpipe.testbed.orchestrator.services.telemetry import Telemetry

ROUTERS = (
    experiments.router,
    runs.router,
    nodes.router,
    calendar.router,
    files.router,
    tokens.router,
)


def users_app(orchestrator: Orchestrator, telemetry: Telemetry, host: str) -> ASGIApp:
    """Return the application of the users' port, with its guards.

    Args:
        orchestrator: The orchestrator.
        telemetry: Newest samples of nodes.
        host: Address that it listens on.
    """
    return HostGuard(WithHeaders(bare_app(orchestrator, telemetry)), host)


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
            HTTPException: answers.on_http_error,
            Exception: answers.on_error,
        },
    )
    app.state.orchestrator, app.state.telemetry = orchestrator, telemetry
    for router in ROUTERS:
        app.include_router(router)

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> Response:
        async with orchestrator.database.read():
            return Response("ok\n", media_type="text/plain")

    @app.get("/v1/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return JSONResponse(add_schemas(app))

    return app


async def _on_validation(_: Request, error: Exception) -> Response:
    """Turn the framework's error of a parameter into bentpipe's one line."""
    first: dict[str, Any] = error.errors()[0] if isinstance(error, RequestValidationError) else {}
    place, name = (*first.get("loc", ()), "", "")[:2]
    problem = f"{name} is missing" if first.get("type") == "missing" else f"{name} is {shown(first.get('input'))}"
    expected = str(first.get("msg", "")).removeprefix("Input should be ").removeprefix("Value error, ")
    return answers.problem_of(UserError(problem, where=str(place), expected=expected))
