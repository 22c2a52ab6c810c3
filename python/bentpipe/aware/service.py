"""HTTP and server-sent events of the service.

It listens on the loopback; elsewhere it asks for a token. Pages of other origins are refused (`Origin`), and names that
do not lead to this machine (`Host`), so that no page of the Internet can read it by DNS rebinding.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hmac
import ipaddress
import json
import logging
import math
import socket
from dataclasses import asdict, dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from bentpipe.aware.documents import DOCUMENTS, schemas
from bentpipe.aware.hub import Hub, Subscriber, event
from bentpipe.aware.state import NUMBERS, Sample, State
from bentpipe.errors import UserError
from bentpipe.triggers.trigger import Firing, Trigger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

KEEP_ALIVE_S = 15.0
"""Time after which each subscriber gets a comment, so that proxies keep the connection [s]."""

MOST_TRIGGERS = 256
"""Most conditions at a time."""

MOST_WINDOWS = 200_000
"""Most windows that all conditions look at; chosen here: 10 ms of each second."""

STREAMS = ("/v1/events", "/v1/triggers")
PAGE = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": PAGE,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


@dataclass
class Service:
    """The service.

    Attributes:
        state: What it knows.
        token: Token that requests must have; None: none.
        hosts: Names in the header `Host` that are allowed; None: any, which needs a token.
    """

    state: State
    token: str | None = None
    hosts: frozenset[str] | None = frozenset({"localhost", "127.0.0.1", "[::1]"})
    hub: Hub = field(default_factory=Hub)
    triggers: dict[Subscriber, Trigger] = field(default_factory=dict)
    _loop: asyncio.AbstractEventLoop | None = None

    def observe(self, sample: Sample) -> None:
        """Take a sample from the thread of a feed."""
        self._call(self._observe, sample)

    def report(self, trouble: str) -> None:
        """Take the reason why there are no samples from the thread of a feed."""
        self._call(self._trouble, trouble)

    def _call(self, function: Any, value: object) -> None:  # noqa: ANN401 - a method
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(function, value)

    def _observe(self, sample: Sample) -> None:
        self.state.observe(sample)
        for kind in DOCUMENTS:
            self.hub.publish(kind, self.state.document(kind).model_dump_json())
        numbers = self.state.numbers()
        for subscriber, trigger in tuple(self.triggers.items()):
            firing = trigger.push(sample.t_s, numbers)
            if firing is not None:
                self.hub.number += 1
                self.hub.pass_on(subscriber, event("firing", _json(firing), self.hub.number))

    def _trouble(self, trouble: str) -> None:
        self.state.trouble = trouble
        for kind in ("telemetry", "next"):
            self.hub.publish(kind, self.state.document(kind).model_dump_json())

    def app(self) -> ASGIApp:
        """Return the ASGI application."""

        @contextlib.asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            self._loop = asyncio.get_running_loop()
            quiet = asyncio.create_task(self._keep_alive())
            yield
            quiet.cancel()
            self._loop = None

        routes = [
            Route("/", _file("page.html", "text/html")),
            Route("/page.js", _file("page.js", "text/javascript")),
            Route("/page.css", _file("page.css", "text/css")),
            Route("/healthz", self._health),
            Route("/v1/schema", self._schema),
            Route("/v1/events", self._events),
            Route("/v1/triggers", self._trigger),
            *(Route(f"/v1/{kind}", self._document(kind)) for kind in DOCUMENTS),
        ]
        application = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: _no_address})
        return _Guard(application, self.token, self.hosts)

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(KEEP_ALIVE_S)
            for subscriber in tuple(self.hub.subscribers):
                self.hub.pass_on(subscriber, b": quiet\n\n")

    def _document(self, kind: str) -> Any:  # noqa: ANN401 - an endpoint
        async def document(_: Request) -> Response:
            return Response(self.state.document(kind).model_dump_json(), media_type="application/json", headers=HEADERS)

        return document

    async def _health(self, _: Request) -> Response:
        reason = self.state.telemetry().reason
        counts = {"subscribers": len(self.hub.subscribers), "dropped": self.hub.dropped, "triggers": len(self.triggers)}
        return JSONResponse(
            {"status": "ok" if reason is None else "waiting", "reason": reason, **counts}, headers=HEADERS
        )

    async def _schema(self, _: Request) -> Response:
        return JSONResponse(schemas(), headers=HEADERS)

    async def _events(self, request: Request) -> Response:
        wanted = request.query_params.get("kinds", ",".join(DOCUMENTS))
        kinds = frozenset(kind.strip() for kind in wanted.split(","))
        if unknown := sorted(kinds - DOCUMENTS.keys()):
            return _problem(400, f"kinds: {unknown[0]!r}; expected {', '.join(DOCUMENTS)}")
        subscriber = self.hub.subscribe(kinds)
        if subscriber is None:
            return _problem(503, "too many subscribers; try again later")
        for kind in DOCUMENTS:  # what is known now, also after a reconnection
            if kind in kinds:
                self.hub.pass_on(subscriber, event(kind, self.state.document(kind).model_dump_json(), self.hub.number))
        return _Events(self, subscriber)

    async def _trigger(self, request: Request) -> Response:
        if len(self.triggers) >= MOST_TRIGGERS:
            return _problem(503, "too many conditions; try again later")
        query = request.query_params
        try:
            trigger = Trigger(
                query.get("when", ""),
                NUMBERS,
                window_s=_number(query, "window", 1.0),
                for_windows=int(_number(query, "for", 1.0)),
                cooldown_s=_number(query, "cooldown", 0.0),
            )
        except UserError as error:
            return _problem(400, str(error))
        windows = sum(each.expression.windows for each in self.triggers.values()) + trigger.expression.windows
        if windows > MOST_WINDOWS:
            return _problem(503, f"conditions look at {windows} windows; expected at most {MOST_WINDOWS} in all")
        subscriber = self.hub.subscribe(frozenset({"firing"}))
        if subscriber is None:
            return _problem(503, "too many subscribers; try again later")
        self.triggers[subscriber] = trigger
        return _Events(self, subscriber)


class _Events(Response):
    """Events of a subscriber, until it leaves or does not read."""

    def __init__(self, service: Service, subscriber: Subscriber) -> None:
        super().__init__()
        self._service, self._subscriber = service, subscriber

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_left(receive))
        dropped = asyncio.create_task(self._subscriber.is_dropped.wait())
        try:
            await asyncio.wait({sending, leaving, dropped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._service.hub.leave(self._subscriber)
            self._service.triggers.pop(self._subscriber, None)
            for task in (sending, leaving, dropped):
                task.cancel()
            await asyncio.gather(sending, leaving, dropped, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        headers = {**HEADERS, "Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": pairs})
        await send({"type": "http.response.body", "body": b"retry: 1000\n\n", "more_body": True})
        waiting = self._subscriber.waiting
        while True:
            data = await waiting.get()
            await send({"type": "http.response.body", "body": data, "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _Guard:
    """Refuses other origins, other names of this machine, methods that write, and requests without the token."""

    def __init__(self, app: ASGIApp, token: str | None, hosts: frozenset[str] | None) -> None:
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(scope)) is not None:
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if self._hosts is not None and _name(host) not in self._hosts:
            return _problem(421, "this service answers to localhost only")
        origin = headers.get(b"origin")
        if origin is not None and origin.partition("://")[2] != host:
            return _problem(403, "pages of other origins may not read this service")
        # Requests without Origin, as of images: a page cannot read the answer, but could take the places of others.
        if headers.get(b"sec-fetch-site") in ("cross-site", "same-site") and scope["path"].startswith("/v1/"):
            return _problem(403, "pages of other origins may not request this service")
        if scope["method"] != "GET" and (scope["method"] != "HEAD" or scope["path"] in STREAMS):
            return _problem(405, "expected GET")
        if self._token is not None and scope["path"] != "/healthz" and not self._has_token(headers):
            return _problem(401, "expected the header Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})
        return None

    def _has_token(self, headers: Mapping[bytes, str]) -> bool:
        scheme, _, given = headers.get(b"authorization", "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(given.encode("latin-1"), (self._token or "").encode())


def _name(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def _problem(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": text}, status_code=status, headers={**HEADERS, **(headers or {})})


def _json(firing: Firing) -> str:
    values = {name: value if math.isfinite(value) else None for name, value in firing.values.items()}
    return json.dumps(asdict(firing) | {"values": values}, allow_nan=False)


async def _no_address(request: Request, _: Exception) -> Response:
    kinds = ", ".join(f"/v1/{kind}" for kind in DOCUMENTS)
    return _problem(404, f"no address {request.url.path[:80]}; expected {kinds}, /v1/events, /v1/triggers, /v1/schema")


def _number(query: Mapping[str, str], name: str, default: float) -> float:
    text = query.get(name)
    try:
        value = default if text is None else float(text.removesuffix("s"))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(repr(text), where=name, expected="a number")
    return value


def _file(name: str, kind: str) -> Any:  # noqa: ANN401 - an endpoint
    content = resources.files("bentpipe.aware").joinpath(name).read_text(encoding="utf-8")

    async def file(_: Request) -> Response:
        return HTMLResponse(content, media_type=kind, headers=HEADERS)

    return file


def address_of(listen: str) -> tuple[str, int]:
    """Parse HOST:PORT. Raises `UserError`.

    Example:
        >>> address_of("127.0.0.1:8790"), address_of("[::1]:80")
        (('127.0.0.1', 8790), ('::1', 80))
    """
    host, _, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise UserError(listen, where="listen", expected="HOST:PORT, as 127.0.0.1:8790")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def serve(service: Service, listen: str, on_ready: Any = lambda _: None) -> None:  # noqa: ANN401 - a callback
    """Serve until cancelled or told to end by a signal; `on_ready` gets the port.

    Raises:
        UserError: The address is taken, or is not the loopback and there is no token.
    """
    host, port = address_of(listen)
    if not is_loopback(host):
        if service.token is None:
            raise UserError(
                f"{host} is reached from other machines", where="listen", expected="--token-file with it, or 127.0.0.1"
            )
        service.hosts = None
    elif service.hosts is not None:
        service.hosts |= {f"[{host}]" if ":" in host else host}
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family)
    except OSError as error:
        raise UserError(f"{listen}: {error.strerror}", where="listen", expected="an address that is free") from None
    with contextlib.closing(listener):
        await _run(service, listener, on_ready)


async def _run(service: Service, listener: socket.socket, on_ready: Any) -> None:  # noqa: ANN401 - a callback
    import uvicorn

    config = uvicorn.Config(
        service.app(),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        ws="none",
    )
    # A subscriber that was dropped leaves its response open; /healthz counts it.
    logging.getLogger("uvicorn.error").addFilter(lambda line: "without completing response" not in line.getMessage())
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not running.done():
        await asyncio.sleep(0.01)
    # Loaded modules stay: a full garbage collection that walked through them kept subscribers waiting for 0.1 s.
    gc.collect()
    gc.freeze()
    on_ready(listener.getsockname()[1])
    await running
