"""The server of a replayed page, all of whose hosts are on one port.

``python -m bentpipe.apps.browser.page_server SETTINGS``
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.apps.browser.replay import TYPES, Body, Replay
from bentpipe.apps.web.read import read_page

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Message = MutableMapping[str, Any]
    Send = Callable[[Message], Awaitable[None]]

PORT = 8443


@dataclass(frozen=True)
class Settings:
    """Settings of the server and of the browser.

    Attributes:
        folder: Where certificate and results are.
        page: HAR file, or ``median``.
        http: Version of HTTP: ``1``, ``2`` or ``3``.
        loads: Number of loads.
    """

    folder: str
    page: str
    http: str
    loads: int

    def to_json(self) -> str:
        """Return them as an argument of the modules."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Settings:
        """Read what `to_json` wrote."""
        return Settings(**json.loads(text))

    @property
    def result(self) -> Path:
        """The browser's results."""
        return Path(self.folder) / "loads.json"

    @property
    def controller(self) -> Path:
        """The name of the server's congestion controller."""
        return Path(self.folder) / "controller"

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return Path(self.folder) / "certificate.pem"

    @property
    def key(self) -> Path:
        """The certificate's key."""
        return Path(self.folder) / "key.pem"


def write_certificate(settings: Settings) -> str:
    """Write a certificate for a day and its key; return the SHA-256 of the key as browsers take it (Base64).

    Its name is that of no host. A browser that is told to trust the key accepts it for all, and puts no two hosts on
    one connection, as it would if a certificate had both names.
    """
    import base64
    import hashlib

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bentpipe replay")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("replay.invalid")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    settings.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    settings.key.touch(mode=0o600)
    settings.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    public = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(public).digest()).decode()


class Application:
    """The page as an ASGI application: object ``n`` is at ``/n`` of any host, the document also at ``/``."""

    def __init__(self, replay: Replay) -> None:
        """Serve these objects."""
        self.replay = replay

    async def __call__(self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            while (await receive())["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        number = _number(scope["path"])
        if number is None or number >= len(self.replay.bodies):
            status, kind, body = 404, "other", Body()
        else:
            status, kind, body = 200, self.replay.kinds[number], self.replay.bodies[number]
        headers = [
            (b"content-type", TYPES[kind].encode()),
            (b"content-length", str(body.size).encode()),
            (b"access-control-allow-origin", b"*"),
            (b"timing-allow-origin", b"*"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for chunk in body.chunks():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _number(path: str) -> int | None:
    text = path.removeprefix("/") or "0"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else None


def controller_name(http: str) -> str:
    """Return the congestion controller of this process: the kernel's, and over HTTP/3 that of its QUIC."""
    if http == "3":
        from aioquic.quic.configuration import QuicConfiguration

        return QuicConfiguration().congestion_control_algorithm
    with socket.socket() as tcp:
        return tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).partition(b"\0")[0].decode()


def serve(settings: Settings) -> None:
    """Serve the page until the process is ended."""
    from hypercorn.asyncio import serve as hypercorn
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"0.0.0.0:{PORT}"]
    config.certfile, config.keyfile = str(settings.certificate), str(settings.key)
    config.alpn_protocols = ["http/1.1"] if settings.http == "1" else ["h2", "http/1.1"]
    if settings.http == "3":
        config.quic_bind = config.bind
    config.errorlog = None
    replay = Replay.of(read_page(settings.page), PORT)
    settings.controller.write_text(controller_name(settings.http), encoding="utf-8")
    asyncio.run(hypercorn(Application(replay), config))  # type: ignore[arg-type]


if __name__ == "__main__":
    serve(Settings.from_json(sys.argv[1]))
