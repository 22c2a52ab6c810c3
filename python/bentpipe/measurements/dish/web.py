"""gRPC-Web: unary calls over HTTP/1.1, which terminals serve on port 9201 for browsers.

A body is a series of frames: a flag, a length of four bytes (big endian), and the payload. Flag 0 is a message, flag
0x80 the trailers, lines ``name:value`` (github.com/grpc/grpc, doc/PROTOCOL-WEB.md). Bodies of
``application/grpc-web-text`` are the same in Base64.
"""

from __future__ import annotations

import http.client
import socket
import struct
import time
from typing import Any
from urllib.parse import quote, unquote

import grpc

from bentpipe.measurements.dish.errors import (
    MAX_ANSWER_BYTES,
    DishError,
    status_error,
    timeout_error,
    too_large_error,
    unreachable_error,
)
from bentpipe.measurements.dish.reflection import Reflected
from bentpipe.measurements.dish.wire import HANDLE

#: Port of gRPC-Web, beside gRPC's 9200.
WEB_PORT = 9201
CONTENT_TYPE = "application/grpc-web+proto"
TRAILERS = 0x80
_HEADER = struct.Struct(">BI")
#: Size limit of trailers [bytes]. Chosen here: a status and a sentence.
_MAX_TRAILERS = 2**14
_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}


def frame(flag: int, payload: bytes) -> bytes:
    """Return a frame."""
    return _HEADER.pack(flag, len(payload)) + payload


def trailers(code: int, message: str = "") -> bytes:
    """Return the frame of trailers: gRPC status code and message."""
    return frame(TRAILERS, f"grpc-status:{code}\r\ngrpc-message:{quote(message, safe=' ')}\r\n".encode())


def frames(body: bytes) -> list[tuple[int, bytes]]:
    """Return the frames of a body, each with its flag.

    Raises:
        ValueError: The body ends within a frame.
    """
    result, at = [], 0
    while at < len(body):
        if at + _HEADER.size > len(body):
            raise ValueError("a frame without a whole header")
        flag, length = _HEADER.unpack_from(body, at)
        at += _HEADER.size
        if at + length > len(body):
            raise ValueError(f"a frame of {length} bytes of which {len(body) - at} are there")
        result.append((flag, body[at : at + length]))
        at += length
    return result


class _DeadlineSocket(socket.socket):
    """A connected socket with one deadline for all reads and writes.

    A socket's own timeout is per read: a server that sends a byte now and then would never time out.
    """

    def __init__(self, connected: socket.socket, deadline_s: float) -> None:
        super().__init__(connected.family, connected.type, connected.proto, connected.detach())
        self._deadline_s = deadline_s

    def _set_time_left(self) -> None:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self.settimeout(left_s)

    def recv_into(self, *args: Any, **options: Any) -> int:  # noqa: ANN401 - as its base has it
        self._set_time_left()
        return super().recv_into(*args, **options)

    def sendall(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as its base has it
        self._set_time_left()
        super().sendall(*args, **options)


class GrpcWebTransport:
    """Unary calls over HTTP/1.1: a `bentpipe.measurements.dish.client.Transport` without reflection."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        """Store the address; each call connects."""
        self.host = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self._address, self._timeout_s = (host, port), timeout_s

    def call(self, request: bytes) -> bytes:
        """Send a Request over a new connection; see `Transport.call`."""
        status, headers, body = self._post(frame(0, request))
        if status != 200:
            raise DishError("unsupported", f"{self.host}: HTTP status {status}; expected gRPC-Web of a terminal")
        message: bytes | None = None
        fields = {name.lower(): value for name, value in headers}
        try:
            for flag, payload in frames(body):
                if flag == TRAILERS:
                    lines = payload[:_MAX_TRAILERS].decode("latin-1").split("\r\n")
                    pairs = (line.partition(":") for line in lines)
                    fields |= {name.strip().lower(): value.strip() for name, _, value in pairs}
                elif flag == 0 and message is None:
                    message = payload
                else:
                    raise ValueError(f"a frame with flag {flag}")
        except ValueError as error:
            raise DishError("malformed", f"{self.host}: is not a gRPC-Web answer ({error})") from None
        code = fields.get("grpc-status", "0" if message is not None else "")
        if code == "0" and message is not None:
            return message
        known = _STATUS_CODES.get(int(code)) if code.isascii() and code.isdigit() and len(code) < 4 else None
        if known is None or code == "0":
            raise DishError("malformed", f"{self.host}: is not a gRPC-Web answer (status {code[:20]!r})")
        raise status_error(self.host, known, unquote(fields.get("grpc-message", "")), self._timeout_s)

    def reflect(self) -> Reflected | None:
        """Return None: reflection needs bidirectional streams, which gRPC-Web does not have."""
        return None

    def close(self) -> None:
        """Do nothing: each call closes its connection."""

    def _post(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(*self._address, timeout=self._timeout_s)
        deadline_s = time.monotonic() + self._timeout_s
        try:
            connection.connect()
            connection.sock = _DeadlineSocket(connection.sock, deadline_s)
            headers = {"Content-Type": CONTENT_TYPE, "Accept": CONTENT_TYPE, "X-Grpc-Web": "1", "Connection": "close"}
            connection.request("POST", HANDLE, body, headers)
            limit = MAX_ANSWER_BYTES + _MAX_TRAILERS
            with connection.getresponse() as response:
                body = response.read(limit + 1)
                if len(body) > limit:
                    raise too_large_error(self.host)
                return response.status, response.getheaders(), body
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise timeout_error(self.host, self._timeout_s) from None
            if isinstance(error, OSError) and not isinstance(error, http.client.HTTPException):
                raise unreachable_error(self.host) from None
            reason = " ".join(ascii(str(error)).split())[:80]
            raise DishError("malformed", f"{self.host}: no HTTP answer ({reason}); expected gRPC-Web") from None
        finally:
            connection.close()
