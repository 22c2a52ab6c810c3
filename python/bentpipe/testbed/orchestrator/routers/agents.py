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
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bentpipe.errors import BentpipeError, UserError, shown
from bentpipe.testbed.orchestrator.routers import answers
from bentpipe.testbed.orchestrator.routers.bodies import LARGEST_BODY, read_body, read_record
from bentpipe.testbed.orchestrator.routers.streams import MOST_STREAMS_OF_NODE, EventStream
from bentpipe.testbed.orchestrator.services import desired_states, events, files, joining, nodes
from bentpipe.testbed.orchestrator.services.refusals import TooLargeError, UnauthenticatedError
from bentpipe.testbed.schemas.agent_protocol import (
    LARGEST_PART,
    MOST_EVENTS,
    CommitRequest,
    EnrolRequest,
    EventBatch,
    Heartbeat,
    RenewRequest,
    TelemetryBatch,
)
from bentpipe.testbed.schemas.identifiers import FILE_PATH_RULE, is_file_path, is_id
from bentpipe.testbed.schemas.node import NodeReport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    from bentpipe.testbed.orchestrator.context import Orchestrator
    from bentpipe.testbed.orchestrator.node_table import KnownNode
    from bentpipe.testbed.orchestrator.security.client_certificates import CertificateReader
    from bentpipe.testbed.orchestrator.services.heartbeats import Heartbeats
    from bentpipe.testbed.orchestrator.services.telemetry import Telemetry
    from bentpipe.testbed.orchestrator.services.uploads import Uploads

    NodeEndpoint = Callable[[Request, KnownNode], Awaitable[Response]]

PREFIX = "/agent/v1"
PUBLIC = frozenset({f"{PREFIX}/enrol", f"{PREFIX}/authority"})
"""Paths without a certificate."""
RUN_END = PREFIX + "/runs/{run}/{end}"


@dataclass
class AgentRoutes:
    """Endpoints of agents."""

    orchestrator: Orchestrator
    certificates: CertificateReader
    heartbeats: Heartbeats
    uploads: Uploads
    telemetry: Telemetry

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
                node = self.node_of(request.scope)
                if node.older_key_hash is not None:
                    await self._forget_older_key(request.scope, node)
                return await endpoint(request, node)
            except BentpipeError as error:
                return answers.problem_of(error)

        return guarded_endpoint

    async def _forget_older_key(self, scope: Scope, node: KnownNode) -> None:
        """Refuse the key before, if the node shows its new one."""
        identity = self.certificates.identity(scope)
        if identity is not None and identity.key_hash == node.key_hash:
            await joining.forget_older_key(self.orchestrator, node.node, node.key_hash)

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

    async def stream(self, request: Request, node: KnownNode) -> Response:
        """Tell of newer versions of the wanted state."""
        known, identity = self.orchestrator.nodes, self.certificates.identity(request.scope)

        def version() -> str | None:
            present = known.get(node.node)
            over = self.orchestrator.wakeups.ended or present is None or not present.active
            over = over or identity is None or identity.until_at_ms < self.orchestrator.clock()
            return None if over or present is None else str(present.version)

        return EventStream(
            lambda: self.orchestrator.wakeups.of_node(node.node),
            version,
            "version",
            caller=node.node,
            most=MOST_STREAMS_OF_NODE,
        )

    async def desired(self, request: Request, node: KnownNode) -> Response:
        """Give the wanted state, if it is newer."""
        since = request.query_params.get("since", "0")
        if since == str(node.version):
            return Response(status_code=204)
        desired = await desired_states.desired_state(self.orchestrator, node.node)
        if since == str(desired.version):
            return Response(status_code=204)
        return answers.json_answer(desired)

    async def take_events(self, request: Request, node: KnownNode) -> Response:
        """Take events."""
        batch = await read_record(request, EventBatch, 4 * LARGEST_BODY)
        if len(batch.events) > MOST_EVENTS:
            raise TooLargeError(f"{len(batch.events)} events; expected at most {MOST_EVENTS}")
        return answers.json_answer(await events.take_events(self.orchestrator, self.heartbeats.boots, node, batch))

    async def take_telemetry(self, request: Request, node: KnownNode) -> Response:
        """Take the newest samples."""
        self.telemetry.take(node.node, await read_record(request, TelemetryBatch, LARGEST_BODY))
        return Response(status_code=204)

    async def file(self, request: Request, node: KnownNode) -> Response:
        """Give a Profile's file."""
        content = await files.file_for_node(self.orchestrator, node.node, request.path_params["sha256"])
        return Response(content, media_type="application/vnd.apache.parquet")

    async def offset(self, request: Request, node: KnownNode) -> Response:
        """Say how many bytes of a file have arrived."""
        run, end, path = _place(request)
        size = await self.uploads.offset(node.node, run, end, path)
        return Response(headers={"Upload-Offset": str(size)})

    async def put(self, request: Request, node: KnownNode) -> Response:
        """Take a part of a file."""
        run, end, path = _place(request)
        text = request.query_params.get("offset", "")
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            raise UserError(shown(text), where="offset", expected="a number of bytes")
        part = await read_body(request, LARGEST_PART)
        size = await self.uploads.put(node.node, run, end, path, int(text), part)
        return Response(status_code=204, headers={"Upload-Offset": str(size)})

    async def commit(self, request: Request, node: KnownNode) -> Response:
        """Take the word that all files of an end were sent."""
        run, end, _ = _place(request)
        body = await read_record(request, CommitRequest, LARGEST_BODY)
        return answers.json_answer(await self.uploads.commit(node.node, run, end, body))

    def routes(self) -> list[Route]:
        """Return all routes."""
        guarded = self.guarded
        return [
            Route(f"{PREFIX}/authority", self.authority, methods=["GET"]),
            Route(f"{PREFIX}/enrol", self.enrol, methods=["POST"]),
            Route(f"{PREFIX}/renew", guarded(self.renew), methods=["POST"]),
            Route(f"{PREFIX}/report", guarded(self.report), methods=["POST"]),
            Route(f"{PREFIX}/heartbeat", guarded(self.heartbeat), methods=["POST"]),
            Route(f"{PREFIX}/stream", guarded(self.stream), methods=["GET"]),
            Route(f"{PREFIX}/desired", guarded(self.desired), methods=["GET"]),
            Route(f"{PREFIX}/events", guarded(self.take_events), methods=["POST"]),
            Route(f"{PREFIX}/telemetry", guarded(self.take_telemetry), methods=["POST"]),
            Route(f"{PREFIX}/files/{{sha256}}", guarded(self.file), methods=["GET"]),
            Route(RUN_END + "/files/{path:path}", guarded(self.offset), methods=["HEAD"]),
            Route(RUN_END + "/files/{path:path}", guarded(self.put), methods=["PUT"]),
            Route(RUN_END + "/commit", guarded(self.commit), methods=["POST"]),
        ]


def _place(request: Request) -> tuple[str, str, str]:
    """Return run, end and file of a path. Raises `UserError`."""
    run, end, path = (request.path_params.get(name, "") for name in ("run", "end", "path"))
    if not is_id(run):
        raise UserError(shown(run), where="run", expected="an id")
    if end not in ("client", "server"):
        raise UserError(shown(end), where="end", expected="client or server")
    if path and not is_file_path(path):
        raise UserError(shown(path), where="path", expected=FILE_PATH_RULE)
    return run, end, path


def agents_app(routes: AgentRoutes) -> ASGIApp:
    """Return the application of the agents' port."""
    app = Starlette(
        routes=routes.routes(),
        exception_handlers={HTTPException: answers.on_http_error, **answers.HANDLERS},
    )
    often = {
        f"{PREFIX}/heartbeat": routes.guarded(routes.heartbeat),
        f"{PREFIX}/events": routes.guarded(routes.take_events),
    }
    return Shortcut(WithHeaders(app), often)


class Shortcut:
    """Calls the endpoints that ten thousand nodes call all the time, without a router between."""

    def __init__(self, app: ASGIApp, posts: Mapping[str, Callable[[Request], Awaitable[Response]]]) -> None:
        """Wrap an application; `posts`: endpoints of ``POST`` by path."""
        self._app, self._posts = app, posts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        endpoint = self._posts.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        try:
            response = await endpoint(Request(scope, receive))
        except Exception as error:  # noqa: BLE001 - as the router's handler does
            response = answers.problem_of(error)
        response.raw_headers.extend(answers.SECURITY_HEADERS)
        await response(scope, receive, send)


class WithHeaders:
    """Adds the headers of every answer that it does not have itself."""

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
                own = list(message.get("headers", ()))
                names = {name.lower() for name, _ in own}
                message["headers"] = own + [each for each in answers.SECURITY_HEADERS if each[0] not in names]
            await send(message)

        await self._app(scope, receive, send_with_headers)
