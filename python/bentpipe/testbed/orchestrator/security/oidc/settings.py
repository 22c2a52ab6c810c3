"""Settings of the login at a provider: its address, the client's name and secret, the file of roles."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from bentpipe.errors import UserError, shown
from bentpipe.testbed.orchestrator.security.addresses import is_loopback

LONGEST_ISSUER = 140
"""Longest address of an issuer; with a subject of at most 255 characters it fits a column of the database."""
_LARGEST_SECRET = 4096


@dataclass(frozen=True)
class OidcSettings:
    """How to log in at a provider.

    Attributes:
        issuer: Address of the provider, as in its discovery document.
        client: Name of this client at the provider.
        secret: Its secret.
        roles: File that maps groups and subjects to roles; None: nobody gets a role.
        dashboard: Address of the dashboard as browsers see it; None: derived.
    """

    issuer: str
    client: str
    secret: str = field(repr=False)
    roles: Path | None = None
    dashboard: str | None = None

    @classmethod
    def of(
        cls,
        issuer: str | None,
        client: str | None,
        secret_file: Path | None,
        groups: Path | None = None,
        dashboard: str | None = None,
    ) -> OidcSettings | None:
        """Check the flags and read the secret; None: no flag is there.

        Raises:
            UserError: A flag is missing, an address without TLS, or a file that cannot be read.

        Example:
            >>> OidcSettings.of("http://id.example.org", "testbed", None)
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: oidc_secret_file: missing; expected all of issuer, client and secret file
        """
        flags = {"oidc_issuer": issuer, "oidc_client": client, "oidc_secret_file": secret_file}
        if not any((*flags.values(), groups, dashboard)):
            return None
        for name, value in flags.items():
            if not value:
                raise UserError("missing", where=name, expected="all of issuer, client and secret file")
        assert issuer is not None
        assert client is not None
        assert secret_file is not None
        check_url(issuer, "oidc_issuer")
        if len(issuer) > LONGEST_ISSUER:
            raise UserError(f"{len(issuer)} characters", where="oidc_issuer", expected=f"at most {LONGEST_ISSUER}")
        if dashboard is not None:
            dashboard = check_url(dashboard, "oidc_url").rstrip("/")
            if urlsplit(dashboard).path:
                raise UserError(shown(dashboard), where="oidc_url", expected="https://HOST without a path")
        return cls(issuer, client, _secret_of(secret_file), groups, dashboard)


def check_url(text: str, where: str, *, is_issuer: bool = True) -> str:
    """Return an address that is safe to call: https, or http on the loopback. Raises `UserError`.

    An issuer has no query; other addresses may.

    Example:
        >>> check_url("https://id.example.org/realm", "oidc_issuer")
        'https://id.example.org/realm'
        >>> check_url("http://id.example.org", "oidc_issuer")
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: oidc_issuer: http://id.example.org; expected https://…, or http:// on the loopback
    """
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    forbidden = "@#?\\" if is_issuer else "@#\\"
    is_plain = text.isascii() and text.isprintable() and " " not in text and not any(each in text for each in forbidden)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))
    if not (host and is_plain and is_safe):
        raise UserError(text[:200], where=where, expected="https://…, or http:// on the loopback")
    return text


def _secret_of(file: Path) -> str:
    """Return the secret in a file. Raises `UserError`, which never shows it."""
    try:
        with file.open("rb") as opened:
            secret = opened.read(_LARGEST_SECRET + 1).decode("ascii").strip()
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}", where="oidc_secret_file", expected="a file") from None
    except UnicodeDecodeError:
        secret = ""
    if not secret.isprintable() or not 0 < len(secret) <= _LARGEST_SECRET:
        raise UserError(f"{file}: no secret", where="oidc_secret_file", expected="one line of ASCII")
    return secret
