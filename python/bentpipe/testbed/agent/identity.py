"""A node's key and certificate: made at the node, signed by the orchestrator, kept with mode 0600."""

from __future__ import annotations

import hashlib
import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

RENEW_SHARE = 1 / 3
"""Share of its life that is left when a certificate is renewed."""


@dataclass(frozen=True)
class Identity:
    """Files of a node's identity in its folder."""

    folder: Path

    @property
    def key_path(self) -> Path:
        """Private key."""
        return self.folder / "node.key"

    @property
    def certificate_path(self) -> Path:
        """Certificate."""
        return self.folder / "node.crt"

    @property
    def authority_path(self) -> Path:
        """Certificate of the authority."""
        return self.folder / "authority.crt"

    @property
    def is_enrolled(self) -> bool:
        """Whether there is a certificate."""
        return self.certificate_path.exists() and self.authority_path.exists()

    @property
    def next_key_path(self) -> Path:
        """Private key of a renewal that is under way."""
        return self.folder / "node.key.next"

    def make_request(self, name: str, *, is_renewal: bool = False) -> str:
        """Return a certificate signing request in PEM: with the key that there is, else or for a renewal a new one.

        A renewal whose answer was lost is repeated with the same key.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        path = self.next_key_path if is_renewal else self.key_path
        if path.exists():
            key = serialization.load_pem_private_key(path.read_bytes(), None)
            if not isinstance(key, ec.EllipticCurvePrivateKey):
                raise UserError("no elliptic-curve key", where=str(path), expected="the agent's key")
        else:
            key = ec.generate_private_key(ec.SECP256R1())
            write_private(
                path,
                key.private_bytes(
                    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                ),
            )
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
        return request.public_bytes(serialization.Encoding.PEM).decode()

    def keep(self, certificate_pem: str, authority_pem: str | None = None) -> None:
        """Keep a certificate, and the authority's."""
        if authority_pem is not None:
            write_private(self.authority_path, authority_pem.encode())
        write_private(self.certificate_path, certificate_pem.encode())
        self._take_next_key()

    def _take_next_key(self) -> None:
        """Replace the key by that of the renewal, if the certificate is for it; also after a kill between the two."""
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization

        if not self.next_key_path.exists():
            return
        certificate = x509.load_pem_x509_certificate(self.certificate_path.read_bytes())
        key = serialization.load_pem_private_key(self.next_key_path.read_bytes(), None)
        if key.public_key() == certificate.public_key():
            self.next_key_path.replace(self.key_path)

    def is_due(self, now: datetime | None = None) -> bool:
        """Return whether the certificate is to be renewed: a third of its life, or less, is left."""
        from cryptography import x509

        certificate = x509.load_pem_x509_certificate(self.certificate_path.read_bytes())
        life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
        return (now or datetime.now(UTC)) > certificate.not_valid_after_utc - life * RENEW_SHARE

    def tls(self) -> ssl.SSLContext:
        """Return a TLS context that shows the certificate and trusts the authority alone."""
        self._take_next_key()
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(self.authority_path))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the authority is this testbed's own, and signs one server
        context.load_cert_chain(self.certificate_path, self.key_path)
        return context


def fingerprint(authority_pem: str) -> str:
    """Return the SHA-256 of a certificate, as a join token carries it."""
    der = ssl.PEM_cert_to_DER_cert(authority_pem)
    return hashlib.sha256(der).hexdigest()


def write_private(path: Path, content: bytes) -> None:
    """Write a file that its owner alone reads, completely or not at all; links in its place are not followed."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
