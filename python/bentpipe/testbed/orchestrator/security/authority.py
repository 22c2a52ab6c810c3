"""The certificate authority of a testbed: made at first start, it signs the certificates of nodes and of the server."""

from __future__ import annotations

import hashlib
import ipaddress
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.files import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
    from cryptography.hazmat.primitives.hashes import SHA256

AUTHORITY_YEARS = 20
SERVER_DAYS = 397
"""How long the server's certificate is valid; it is made anew at each start."""
SKEW = timedelta(hours=1)
"""Certificates are valid from an hour before they were made, for nodes whose clock is late."""


@dataclass(frozen=True)
class NodeCertificate:
    """A certificate, its serial number, and the hash of its public key."""

    pem: str
    serial: str
    key_hash: str


class Authority:
    """A key and its certificate, in a folder that only their owner reads."""

    def __init__(self, folder: Path, key: EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        """Take a key and its certificate."""
        self.folder, self._key, self.certificate = folder, key, certificate

    @classmethod
    def open(cls, folder: Path) -> Authority:
        """Read the authority of a folder, or make one there. Raises `UserError`: the files are damaged."""
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        key_file, certificate_file = folder / "authority.key", folder / "authority.pem"
        if not key_file.exists():
            _make(key_file, certificate_file)
        try:
            key = serialization.load_pem_private_key(key_file.read_bytes(), None)
            certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        except (ValueError, OSError) as error:
            raise UserError(f"{folder}: {error}", where="home", expected="authority.key and authority.pem") from None
        if not isinstance(key, EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise UserError("the key is not that of the certificate", where=str(folder), expected="a pair")
        return cls(folder, key, certificate)

    @property
    def pem(self) -> str:
        """The certificate as PEM."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self.certificate.public_bytes(Encoding.PEM).decode("ascii")

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, which a join token carries."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return hashlib.sha256(self.certificate.public_bytes(Encoding.DER)).hexdigest()

    def sign_node(self, csr_pem: str, node: str, days: float) -> NodeCertificate:
        """Sign a node's certificate. Only the public key of the request is taken: names and extensions are ours.

        Raises:
            UserError: No request, a wrong signature, or a weak key.
        """
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        public_key = request_key(csr_pem)
        certificate = (
            _builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, node)]), self.certificate.subject, days)
            .public_key(public_key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=True)
            .add_extension(self._own_identifier(), critical=False)
            .sign(self._key, _sha256())
        )
        return NodeCertificate(_pem(certificate), f"{certificate.serial_number:x}", key_hash(public_key))

    def _own_identifier(self) -> x509.AuthorityKeyIdentifier:
        from cryptography import x509

        return x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())

    def server_files(self, names: list[str]) -> tuple[Path, Path]:
        """Make a certificate of the server for these hosts and addresses; return its file and its key's."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(
                x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bentpipe orchestrator")]),
                self.certificate.subject,
                SERVER_DAYS,
            )
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=True)
            .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
            .add_extension(self._own_identifier(), critical=False)
            .sign(self._key, _sha256())
        )
        key_file, certificate_file = self.folder / "server.key", self.folder / "server.pem"
        _write_private(key_file, _key_pem(key))
        replace_file(certificate_file, (_pem(certificate) + self.pem).encode())
        return certificate_file, key_file


def request_key(csr_pem: str) -> CertificatePublicKeyTypes:
    """Return the public key of a signing request. Raises `UserError`: no request, a wrong signature, a weak key."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    expected = "a PEM request with a key on P-256 or Ed25519"
    try:
        request = x509.load_pem_x509_csr(csr_pem.encode("ascii"))
        valid = request.is_signature_valid
        public_key = request.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidSignature) as error:
        raise UserError(f"{type(error).__name__}", where="csr_pem", expected=expected) from None
    if not valid:
        raise UserError("its signature is wrong", where="csr_pem", expected=expected)
    if isinstance(public_key, ec.EllipticCurvePublicKey) and isinstance(public_key.curve, ec.SECP256R1):
        return public_key
    if isinstance(public_key, ed25519.Ed25519PublicKey):
        return public_key
    raise UserError(type(public_key).__name__, where="csr_pem", expected=expected)


def key_hash(public_key: CertificatePublicKeyTypes) -> str:
    """Return the SHA-256 of a public key's bytes (SubjectPublicKeyInfo)."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return hashlib.sha256(public_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _make(key_file: Path, certificate_file: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bentpipe testbed")])
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(name, name, AUTHORITY_YEARS * 365)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, _sha256())
    )
    replace_file(certificate_file, _pem(certificate).encode())
    _write_private(key_file, _key_pem(key))


def _builder(subject: x509.Name, issuer: x509.Name, days: float) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _sha256() -> SHA256:
    from cryptography.hazmat.primitives import hashes

    return hashes.SHA256()


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode("ascii")


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner reads."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
