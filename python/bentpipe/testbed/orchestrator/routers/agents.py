"""``/agent/v1``: what agents call, on a port of its own with mutual TLS.

Plain routes of Starlette: ten thousand nodes call every 15 s. Every route but ``enrol`` needs a node's certificate, and
each call looks whether the node is still active and the key is still its own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from bentpipe.errors import BentpipeError
from bentpipe.testbed.orchestrator.routers import answers
from bentpipe.testbed.orchestrator.routers.bodies import read_record
from bentpipe.testbed.orchestrator.services import joining, nodes
from bentpipe.testbed.orchestrator.services.refusals import UnauthenticatedError
from bentpipe.testbed.schemas.agent_protocol import EnrolRequest, Heartbeat, RenewRequest
from bentpipe.testbed.schemas.node import NodeReport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from bentpipe.testbed.orchestrator.context import Orchestrator
    from bentpipe.testbed.orchestrator.node_table import KnownNode
    from bentpipe.testbed.orchestrator.security.client_certificates import CertificateReader
    from bentpipe.testbed.orchestrator.services.heartbeats import Heartbeats

    NodeEndpoint = Callable[[Request, KnownNode], Awaitable[Response]]

PREFIX = "/agent/v1"


@dataclass
class AgentRoutes:
    """Endpoints of agents."""

    orchestrator: Orchestrator
    certificates: CertificateReader
    heartbeats: Heartbeats

    def node_of(self, scope: Scope) -> KnownNode:
        """Return the node that calls. Raises `UnauthenticatedError`."""
        identity = self.certificates.identity(scope)
        if identity is None:
            raise UnauthenticatedError("no certificate of a node; expected mutual TLS; try `bentpipe node join`")
        node = self.orchestrator.nodes.get(identity.node)
        if node is None or not node.active:
            raise UnauthenticatedError("the node is unknown or revoked; try `bentpipe node join` with a new token")
        if identity.key_hash not in (node.key_hash, node.older_key_hash):
            raise UnauthenticatedError("the key was replaced; expected the node's newest certificate")
        if identity.until_at_ms < self.orchestrator.clock():
            raise UnauthenticatedError("the certificate is expired; try `bentpipe node join` with a new token")
        return node

    def guarded(self, endpoint: NodeEndpoint) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that only nodes reach, and whose errors are problems."""

        async def guarded_endpoint(request: Request) -> Response:
            try:
                return await endpoint(request, self.node_of(request.scope))
            except BentpipeError as error:
                return answers.problem_of(error)

        return guarded_endpoint

    async def authority(self, _: Request) -> Response:
        """Return the authority's certificate; a join token carries its fingerprint."""
        return Response(self.orchestrator.authority.pem, media_type="application/x-pem-file")

    async def enrol(self, request: Request) -> Response:
        """Let a node join: the only endpoint without a certificate."""
        try:
            body = await read_record(request, EnrolRequest, 256 * 1024)
            return answers.json_answer(await joining.enrol(self.orchestrator, body))
        except BentpipeError as error:
            return answers.problem_of(error)

    async def renew(self, request: Request, node: KnownNode) -> Response:
        """Give a new certificate."""
        body = await read_record(request, RenewRequest)
        identity = self.certificates.identity(request.scope)
        shown_key = identity.key_hash if identity is not None else node.key_hash
        return answers.json_answer(await joining.renew(self.orchestrator, node.node, shown_key, body.csr_pem))

    async def report(self, request: Request, node: KnownNode) -> Response:
        """Take a node's description."""
        body = await read_record(request, NodeReport, 256 * 1024)
        await nodes.report(self.orchestrator, node.node, body)
        return Response(status_code=204)

    async def heartbeat(self, request: Request, node: KnownNode) -> Response:
        """Take a sign of life."""
        received_at_ms = time.time_ns() / 1e6
        body = await read_record(request, Heartbeat, 64 * 1024)
        return answers.json_answer(await self.heartbeats.beat(node, body, received_at_ms))

    def routes(self) -> list[Route]:
        """Return all routes."""
        guarded = self.guarded
        return [
            Route(f"{PREFIX}/authority", self.authority, methods=["GET"]),
            Route(f"{PREFIX}/enrol", self.enrol, methods=["POST"]),
            Route(f"{PREFIX}/renew", guarded(self.renew), methods=["POST"]),
            Route(f"{PREFIX}/report", guarded(self.report), methods=["POST"]),
            Route(f"{PREFIX}/heartbeat", guarded(self.heartbeat), methods=["POST"]),
        ]


def agents_app(routes: AgentRoutes) -> ASGIApp:
    """Return the application of the agents' port."""
    app = Starlette(
        routes=routes.routes(),
        exception_handlers={HTTPException: answers.on_http_error, Exception: answers.on_error},
    )
    return WithHeaders(app)


class WithHeaders:
    """Adds the headers of every answer."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:  # noqa: ANN401 - a message of ASGI
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *answers.SECURITY_HEADERS]
            await send(message)

        await self._app(scope, receive, send_with_headers)
