"""The server of ``http3``: ``python -m bentpipe.testbed.builtins.http3_server PORT`` sends ``/bytes/N`` over HTTP/3.

Its certificate is made at its start, for nobody: what it sends is no secret.
"""

from __future__ import annotations

import asyncio
import datetime
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration

from bentpipe.testbed.builtins.gate import wait_at_gate

LARGEST_BYTES = 10**9
PIECE = bytes(range(256)) * 256
"""64 KiB, sent over and over: no proxy compresses QUIC."""
AHEAD_BYTES = 4 << 20
"""Most bytes that wait for the path [bytes]: more only takes memory."""
CONTROLLER = "cubic"
"""Congestion controller of aioquic."""


class Server(QuicConnectionProtocol):
    """A connection of a client."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as aioquic passes them
        """Take the arguments of aioquic."""
        super().__init__(*args, **kwargs)
        self._http: H3Connection | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def quic_event_received(self, event: Any) -> None:  # noqa: ANN401 - one of many
        """Answer requests."""
        self._http = self._http or H3Connection(self._quic)
        for each in self._http.handle_event(event):
            if isinstance(each, HeadersReceived):
                path = dict(each.headers).get(b":path", b"").decode(errors="replace")
                task = asyncio.create_task(self._answer(self._http, each.stream_id, path))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answer(self, http: H3Connection, stream: int, path: str) -> None:
        match = re.fullmatch(r"/bytes/(\d{1,10})", path)
        left = int(match[1]) if match else 0
        status = b"200" if match and left <= LARGEST_BYTES else b"404"
        left = left if status == b"200" else 0
        http.send_headers(stream, [(b":status", status), (b"content-length", str(left).encode())], end_stream=not left)
        while left:
            if self._waiting_bytes(stream) > AHEAD_BYTES:
                await asyncio.sleep(0.005)
                if self._quic._close_event is not None:  # the client is gone
                    return
                continue
            piece = PIECE[:left]
            left -= len(piece)
            http.send_data(stream, piece, end_stream=not left)
            self.transmit()
            await asyncio.sleep(0)  # acknowledgements come in between
        self.transmit()

    def _waiting_bytes(self, stream: int) -> int:
        """Return what aioquic has not had acknowledged; it has no public name for that."""
        sender = self._quic._streams[stream].sender
        return len(sender._buffer)


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for a day, and its key; return the files."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "server")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain)
    )
    return files


async def run(port: int, address: str = "::") -> None:
    """Serve until cancelled."""
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN, congestion_control_algorithm=CONTROLLER)
    with tempfile.TemporaryDirectory() as folder:
        configuration.load_cert_chain(*write_certificate(Path(folder)))
    wait_at_gate()
    await serve(address, port, configuration=configuration, create_protocol=Server)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1])))
