"""``http3``: downloads over HTTP/3 from the server node, one after the other, each over a connection of its own."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.builtins.outcome import NetworkFailureError
from bentpipe.testbed.builtins.tools import keep_samples, module

if TYPE_CHECKING:
    from bentpipe.testbed.builtins.request import Context
    from bentpipe.testbed.schemas.builtins import Http3Arguments

PORTS = ("http3",)
INTERVAL_S = 0.2
"""Length of a row of `samples` [s]."""
CONNECT_S = 10.0
"""Longest handshake [s]."""
LEAST_BPS = 1e6
"""Mean rate below which a download is given up [bit/s]."""


class Download:
    """A download.

    Attributes:
        began_ns: When its handshake began [ns since 1970].
        handshake_s: Time of the handshake [s]; None: it did not end.
        first_byte_s: Time from the request to the first byte of the body [s].
        ended_s: Time from the request to the last byte [s].
        arrivals: Times since the request [s] and bytes of the body.
    """

    def __init__(self) -> None:
        """Nothing has come."""
        self.began_ns = time.time_ns()
        self.requested_ns = 0
        self.handshake_s: float | None = None
        self.first_byte_s: float | None = None
        self.ended_s: float | None = None
        self.arrivals: list[tuple[float, int]] = []

    def figures(self) -> dict[str, Any]:
        """Return them for ``builtin.json``."""
        ms = {
            name: None if value is None else round(value * 1e3, 3)
            for name, value in (
                ("handshake_ms", self.handshake_s),
                ("first_byte_ms", self.first_byte_s),
                ("download_ms", self.ended_s),
            )
        }
        return {**ms, "bytes": sum(size for _, size in self.arrivals)}

    def rows(self, test: int, target: str) -> list[dict[str, Any]]:
        """Return its rows of `samples`."""
        if not self.arrivals:
            return []
        end_s = self.ended_s or self.arrivals[-1][0]
        counts: dict[int, int] = {}
        for at_s, size in self.arrivals:
            counts[int(at_s / INTERVAL_S)] = counts.get(int(at_s / INTERVAL_S), 0) + size
        rows = []
        for number in range(int(end_s / INTERVAL_S) + 1):
            begin_s, until_s = number * INTERVAL_S, min(end_s, (number + 1) * INTERVAL_S)
            size = counts.get(number, 0)
            if until_s - begin_s < 1e-6:
                continue
            rows.append(
                {
                    "unix_ns": self.requested_ns + round(begin_s * 1e9),
                    "target": target,
                    "t_s": until_s,
                    "duration_s": until_s - begin_s,
                    "test": test,
                    "flow": 0,
                    "direction": "down",
                    "controller": "cubic",
                    "bytes": size,
                    "goodput_bps": size * 8 / (until_s - begin_s),
                }
            )
        return rows


def client(arguments: Http3Arguments, context: Context) -> None:
    """Download."""
    host, port = context.server("http3")
    rows: list[dict[str, Any]] = []
    downloads: list[dict[str, Any]] = []
    failure: str | None = None
    for number in range(arguments.count):
        download = Download()
        try:
            asyncio.run(asyncio.wait_for(_download(host, port, arguments.size, download), _longest_s(arguments.size)))
        except TimeoutError:
            failure = f"download {number + 1}: not complete within {_longest_s(arguments.size):.0f} s"
        except (NetworkFailureError, OSError) as error:
            failure = f"download {number + 1}: {error}"
        downloads.append(download.figures())
        rows += download.rows(number, host)
        if failure is not None:
            break
    context.figures["downloads"] = downloads
    keep_samples(context, rows, ["the handshakes are in builtin.json; test: number of the download"])
    if failure is not None:
        raise NetworkFailureError(failure)


def _longest_s(size_bytes: int) -> float:
    return CONNECT_S + size_bytes * 8 / LEAST_BPS


async def _download(host: str, port: int, size: int, download: Download) -> None:
    from aioquic.asyncio.client import connect
    from aioquic.asyncio.protocol import QuicConnectionProtocol
    from aioquic.h3.connection import H3_ALPN, H3Connection
    from aioquic.h3.events import DataReceived, HeadersReceived
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.events import ConnectionTerminated

    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    requested_s = 0.0

    class Client(QuicConnectionProtocol):
        http: H3Connection | None = None

        def quic_event_received(self, event: Any) -> None:  # noqa: ANN401 - one of many
            if isinstance(event, ConnectionTerminated):
                _fail(done, f"the connection ended: {event.reason_phrase or f'code {event.error_code:#x}'}")
            if self.http is None:
                return
            for each in self.http.handle_event(event):
                if isinstance(each, HeadersReceived) and dict(each.headers).get(b":status") != b"200":
                    _fail(done, f"status {dict(each.headers).get(b':status', b'?').decode()}")
                elif isinstance(each, DataReceived):
                    at_s = loop.time() - requested_s
                    if each.data:
                        download.first_byte_s = download.first_byte_s or at_s
                        download.arrivals.append((at_s, len(each.data)))
                    if each.stream_ended and not done.done():
                        download.ended_s = at_s
                        done.set_result(None)

    # The certificate is a throw-away one, and what is sent is no secret.
    configuration = QuicConfiguration(
        is_client=True,
        alpn_protocols=H3_ALPN,
        verify_mode=ssl.CERT_NONE,
        idle_timeout=CONNECT_S,
        max_data=16 << 20,
        max_stream_data=16 << 20,
        server_name="server",
    )
    began_s = loop.time()
    try:
        async with connect(host, port, configuration=configuration, create_protocol=Client) as protocol:
            assert isinstance(protocol, Client)
            download.handshake_s = loop.time() - began_s
            protocol.http = H3Connection(protocol._quic)
            stream = protocol._quic.get_next_available_stream_id()
            requested_s, download.requested_ns = loop.time(), time.time_ns()
            path = f"/bytes/{size}".encode()
            headers = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"server"), (b":path", path)]
            protocol.http.send_headers(stream, headers, end_stream=True)
            protocol.transmit()
            await done
    except ConnectionError as error:
        raise NetworkFailureError(str(error) or "the handshake failed: no answer") from None


def _fail(done: asyncio.Future[None], reason: str) -> None:
    if not done.done():
        done.set_exception(NetworkFailureError(reason))


def server(_: Http3Arguments, ports: dict[str, int]) -> list[str]:
    """Return the command of the server."""
    return module("bentpipe.testbed.builtins.http3_server", str(ports["http3"]))
