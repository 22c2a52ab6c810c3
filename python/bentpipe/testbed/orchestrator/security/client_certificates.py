"""Client certificates of nodes: from TLS, which uvicorn hides from applications, or from a proxy (RFC 9440)."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from cryptography import x509
    from starlette.types import Receive, Scope, Send

SCOPE_KEY = "bentpipe.certificate"
"""Key of the ASGI scope with the certificate's bytes (DER)."""
MOST_BUFFERED = 65_536
"""Bytes that wait for a client that does not read, at most."""
CONNECTION_KEY = "bentpipe.connection"
"""Key of the ASGI scope with the connection, whose `on_lost` is called when the client leaves."""


class CertificateProtocol(H11Protocol):
    """HTTP/1.1 that gives an application the client's certificate, which TLS has verified."""

    on_lost: Callable[[], None] | None = None
    """Called when the client leaves."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Read the certificate once per connection."""
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        der = tls.getpeercert(binary_form=True) if tls is not None else None
        application = self._application = self.app

        async def with_certificate(scope: Scope, receive: Receive, send: Send) -> None:
            scope[SCOPE_KEY] = der
            scope[CONNECTION_KEY] = self
            await application(scope, receive, send)

        self.app = with_certificate

    def send_chunk(self, data: bytes) -> None:
        """Send a part of a chunked body, past the state machine of HTTP, which such a part does not change.

        Ten thousand streams get a comment every 15 s. Who does not read for so long is cut.
        """
        if self.transport.get_write_buffer_size() > MOST_BUFFERED:
            self.transport.abort()
            return
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the stream of the connection."""
        super().connection_lost(exc)
        self.app = self._application  # else the connection would be part of a cycle
        if self.on_lost is not None:
            self.on_lost()


@dataclass(frozen=True)
class NodeIdentity:
    """What a certificate says.

    Attributes:
        node: Id of the node.
        key_hash: Hash of its public key.
        until_at_ms: When it expires [ms since 1970].
    """

    node: str
    key_hash: str
    until_at_ms: int


class CertificateReader:
    """Reads certificates of nodes, each once."""

    def __init__(self, authority: x509.Certificate, proxy: str | None = None) -> None:
        """Take the authority, and the address of the proxy whose header ``Client-Cert`` is believed."""
        self._authority, self._proxy = authority, proxy
        self._read: dict[bytes, NodeIdentity | None] = {}

    def identity(self, scope: Mapping[str, Any]) -> NodeIdentity | None:
        """Return who calls; None: no certificate, or one that is not ours."""
        der = scope.get(SCOPE_KEY)
        if der is None and self._proxy is not None and (scope.get("client") or ("",))[0] == self._proxy:
            der = _of_header(scope["headers"])
        if der is None:
            return None
        if der not in self._read:
            if len(self._read) > 50_000:
                self._read.clear()
            self._read[der] = self._parse(der)
        return self._read[der]

    def _parse(self, der: bytes) -> NodeIdentity | None:
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        from bentpipe.testbed.orchestrator.security.authority import key_hash

        try:
            certificate = x509.load_der_x509_certificate(der)
            certificate.verify_directly_issued_by(self._authority)
            usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            return None
        if ExtendedKeyUsageOID.CLIENT_AUTH not in usage or len(names) != 1:
            return None
        until_at_ms = int(certificate.not_valid_after_utc.timestamp() * 1000)
        return NodeIdentity(str(names[0].value), key_hash(certificate.public_key()), until_at_ms)


def _of_header(headers: list[tuple[bytes, bytes]]) -> bytes | None:
    """Return the certificate of the header ``Client-Cert`` (RFC 9440: base64 between colons); None: none, or two."""
    values = [value for name, value in headers if name == b"client-cert"]
    if len(values) != 1 or len(values[0]) > 16_384 or not values[0].startswith(b":") or not values[0].endswith(b":"):
        return None
    try:
        return base64.b64decode(values[0][1:-1], validate=True)
    except binascii.Error:
        return None
