"""The second port of a simulated terminal: gRPC-Web over HTTP/1.1, with CORS for pages in browsers."""

from __future__ import annotations

import base64
import binascii
import socket
import socketserver
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

import grpc

from bentpipe.errors import UserError
from bentpipe.measurements.dish.web import frame, frames, trailers
from bentpipe.measurements.dish.wire import HANDLE

#: Open connections; one more closes the oldest. Chosen here: a page has six at most.
_MAX_CONNECTIONS = 32
#: Largest request [bytes]. Chosen here: requests have some hundred.
_MAX_REQUEST = 2**20
#: Timeout of an idle connection [s]. Chosen here.
_IDLE_S = 30.0

#: Answers a request with bytes, or with a gRPC status and message.
Handle = Callable[[bytes], "bytes | tuple[grpc.StatusCode, str]"]


class WebServer(socketserver.ThreadingTCPServer):
    """Answers unary calls on a port, in threads, until `stop`."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, handle: Handle, host: str, port: int) -> None:
        """Listen on the port.

        Raises:
            UserError: The port is taken or not allowed.
        """
        host = host.removeprefix("[").removesuffix("]")
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.handle_call = handle
        self._open: deque[socket.socket] = deque()
        self._lock = threading.Lock()
        try:
            super().__init__((host, port), _Handler)
        except OSError:
            raise UserError(
                f"{host}:{port}: cannot listen, the port may be in use; try `web_port` 0 for a free one"
            ) from None
        self.port: int = self.server_address[1]
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Closes the port and every connection."""
        self.shutdown()
        self.server_close()
        with self._lock:
            for connection in self._open:
                _end(connection)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as its base has it
        """Start a thread for a connection."""
        with self._lock:
            self._open.append(request)
            oldest = self._open.popleft() if len(self._open) > _MAX_CONNECTIONS else None
        if oldest is not None:
            _end(oldest)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - as its base has it
        """Close a connection."""
        with self._lock, suppress(ValueError):
            self._open.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as its base has it
        """Ignore clients that disconnected."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: WebServer
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S

    def do_OPTIONS(self) -> None:
        """Allow requests from pages of any origin (CORS)."""
        self._answer(204, None, b"")

    def do_POST(self) -> None:
        """Answer a call."""
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self._refuse(411)
        elif len(length) > 9 or int(length) > _MAX_REQUEST:
            self._refuse(413)
        elif not kind.startswith("application/grpc-web"):
            self._refuse(415)
        else:
            as_text = kind.startswith("application/grpc-web-text")
            body = self._call(self.rfile.read(int(length)), as_text=as_text)
            self._answer(200, kind, base64.b64encode(body) if as_text else body)

    def _call(self, body: bytes, *, as_text: bool) -> bytes:
        if self.path != HANDLE:
            return _trailers(grpc.StatusCode.UNIMPLEMENTED, f"unknown method {self.path[:100]}")
        try:
            messages = frames(base64.b64decode(body, validate=True) if as_text else body)
        except (ValueError, binascii.Error) as error:
            return _trailers(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if len(messages) != 1 or messages[0][0] != 0:
            return _trailers(grpc.StatusCode.INVALID_ARGUMENT, "expected one message without compression")
        answer = self.server.handle_call(messages[0][1])
        return frame(0, answer) + trailers(0) if isinstance(answer, bytes) else _trailers(*answer)

    def _refuse(self, status: int) -> None:
        self.close_connection = True  # the rest of the input may be the body
        self._answer(status, None, b"")

    def _answer(self, status: int, kind: str | None, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Access-Control-Allow-Methods", "POST, OPTIONS")
        self.send_header("Access-Control-Allow-Headers", "content-type, x-grpc-web, x-user-agent, grpc-timeout")
        self.send_header("Access-Control-Expose-Headers", "grpc-status, grpc-message")
        if kind is not None:
            self.send_header("Content-Type", kind)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        """Return the server name without a version."""
        return "bentpipe"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Log nothing: stdout and stderr belong to the command."""


def _trailers(code: grpc.StatusCode, message: str) -> bytes:
    return trailers(code.value[0], message)
