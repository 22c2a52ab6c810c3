"""gRPC-Web: single calls over HTTP/1.1, as terminals answer them on port 9201 for browsers.

A body is a series of frames: a flag, a length of four bytes (big endian), and so many bytes. Flag 0 is a message, flag
0x80 the trailers, lines ``name:value`` (github.com/grpc/grpc, doc/PROTOCOL-WEB.md). Bodies of
``application/grpc-web-text`` are the same in Base64.
"""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from contextlib import suppress
from urllib.parse import quote, unquote

import grpc

from bentpipe.measurements.dish.reflection import Reflected
from bentpipe.measurements.dish.refusals import MAX_ANSWER_BYTES, DishError, refusal, slow, too_large, unreachable
from bentpipe.measurements.dish.wire import HANDLE

#: Port of gRPC-Web, beside gRPC's 9200.
WEB_PORT = 9201
CONTENT_TYPE = "application/grpc-web+proto"
TRAILERS = 0x80
_HEADER = struct.Struct(">BI")
#: Largest trailers that are read [bytes]. Chosen here: a status and a sentence.
_MAX_TRAILERS = 2**14
_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}


def frame(flag: int, payload: bytes) -> bytes:
    """Return a frame."""
    return _HEADER.pack(flag, len(payload)) + payload


def trailers(code: int, words: str = "") -> bytes:
    """Return the trailers' frame: a gRPC status by its number, and words."""
    return frame(TRAILERS, f"grpc-status:{code}\r\ngrpc-message:{quote(words, safe=' ')}\r\n".encode())


def frames(body: bytes) -> list[tuple[int, bytes]]:
    """Return the frames of a body, each with its flag.

    Raises:
        ValueError: The body ends within one.
    """
    found, at = [], 0
    while at < len(body):
        if at + _HEADER.size > len(body):
            raise ValueError("a frame without a whole header")
        flag, length = _HEADER.unpack_from(body, at)
        at += _HEADER.size
        if at + length > len(body):
            raise ValueError(f"a frame of {length} bytes of which {len(body) - at} are there")
        found.append((flag, body[at : at + length]))
        at += length
    return found


class GrpcWebTransport:
    """Single calls over HTTP/1.1: a `bentpipe.measurements.dish.client.Transport` without reflection."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        """Nothing is connected yet."""
        self.host = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self._address, self._timeout_s = (host, port), timeout_s

    def call(self, request: bytes) -> bytes:
        """As `Transport.call`; a connection for each call."""
        status, headers, body = self._post(frame(0, request))
        if status != 200:
            raise DishError("unsupported", f"{self.host}: HTTP status {status}; expected gRPC-Web of a terminal")
        message: bytes | None = None
        said = {name.lower(): value for name, value in headers}
        try:
            for flag, payload in frames(body):
                if flag == TRAILERS:
                    lines = payload[:_MAX_TRAILERS].decode("latin-1").split("\r\n")
                    pairs = (line.partition(":") for line in lines)
                    said |= {name.strip().lower(): value.strip() for name, _, value in pairs}
                elif flag == 0 and message is None:
                    message = payload
                else:
                    raise ValueError(f"a frame with flag {flag}")
        except ValueError as error:
            raise DishError("malformed", f"{self.host}: is no gRPC-Web answer ({error})") from None
        code = said.get("grpc-status", "0" if message is not None else "")
        if code == "0" and message is not None:
            return message
        known = _STATUS_CODES.get(int(code)) if code.isascii() and code.isdigit() and len(code) < 4 else None
        if known is None or code == "0":
            raise DishError("malformed", f"{self.host}: is no gRPC-Web answer (status {code[:20]!r})")
        raise refusal(self.host, known, unquote(said.get("grpc-message", "")), self._timeout_s)

    def reflect(self) -> Reflected | None:
        """As `Transport.reflect`: gRPC-Web has no streams in both directions, so it has no reflection."""
        return None

    def close(self) -> None:
        """As `Transport.close`."""

    def _post(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(*self._address, timeout=self._timeout_s)
        late = threading.Event()

        def end() -> None:
            late.set()
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

        # The socket's own timeout is that of each read: a byte now and then would go on for ever.
        timer = threading.Timer(self._timeout_s, end)
        timer.daemon = True
        timer.start()
        try:
            headers = {"Content-Type": CONTENT_TYPE, "Accept": CONTENT_TYPE, "X-Grpc-Web": "1", "Connection": "close"}
            connection.request("POST", HANDLE, body, headers)
            response = connection.getresponse()
            most = MAX_ANSWER_BYTES + _MAX_TRAILERS
            found = response.read(most + 1)
            if len(found) > most:
                raise too_large(self.host)
            if late.is_set():
                raise slow(self.host, self._timeout_s)
            return response.status, response.getheaders(), found
        except (OSError, http.client.HTTPException, ValueError) as error:
            if late.is_set() or isinstance(error, TimeoutError):
                raise slow(self.host, self._timeout_s) from None
            if isinstance(error, OSError) and not isinstance(error, http.client.HTTPException):
                raise unreachable(self.host) from None
            reason = " ".join(ascii(str(error)).split())[:80]
            raise DishError("malformed", f"{self.host}: no HTTP answer ({reason}); expected gRPC-Web") from None
        finally:
            timer.cancel()
            connection.close()
