"""Attempts to log in: each is bound to one browser by a signed cookie, and its ``state`` works once.

The cookie holds a random text and a time, signed. ``state``, ``nonce`` and PKCE's verifier are derived from it with the
key, so the cookie of one browser fits no other's ``state``, and neither cookie nor address holds the verifier. All
orchestrators that share the folder of keys accept each other's attempts; which ones were used is in the database.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bentpipe.testbed.orchestrator.security.oidc.errors import LoginRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

ATTEMPT_MS = 10 * 60_000
"""How long a person has to log in at the provider [ms]."""


@dataclass(frozen=True)
class Attempt:
    """An attempt.

    Attributes:
        state: Comes back from the provider.
        nonce: Comes back in the ID token.
        verifier: PKCE's secret, of which the provider first gets the hash.
        then: Path of the page that was wanted.
        until_at_ms: When it is too late [ms since 1970].
    """

    state: str
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    then: str
    until_at_ms: int

    @property
    def challenge(self) -> str:
        """The verifier's hash (S256)."""
        return _base64(hashlib.sha256(self.verifier.encode()).digest())


@dataclass
class Attempts:
    """Begins attempts, and checks what comes back.

    Attributes:
        key: Key of the signatures.
        clock: Time [ms since 1970].
    """

    key: bytes = field(repr=False)
    clock: Callable[[], int]

    def begin(self, then: str) -> tuple[str, Attempt]:
        """Return the cookie of a new attempt, and the attempt."""
        until_at_ms = self.clock() + ATTEMPT_MS
        text = f"{secrets.token_urlsafe(24)}.{until_at_ms}.{_base64(then.encode())}"
        return f"{text}.{self._derive('cookie', text)}", self._attempt(text, then, until_at_ms)

    def check(self, cookie: str, state: str) -> Attempt:
        """Return the attempt of a cookie; whether it was used before, the caller finds out.

        Raises:
            LoginRefusedError: No cookie of ours, another browser's `state`, or a late one.
        """
        text, _, signature = cookie.rpartition(".")
        if not cookie.isascii() or not hmac.compare_digest(signature, self._derive("cookie", text)):
            raise LoginRefusedError("this browser began no login, or more than ten minutes ago; begin it anew")
        _, until, then = text.split(".")
        attempt = self._attempt(text, _text_of(then), int(until))
        if not state.isascii() or not hmac.compare_digest(state, attempt.state):
            raise LoginRefusedError("the answer belongs to a login of another browser or window; begin it anew")
        if attempt.until_at_ms <= self.clock():
            raise LoginRefusedError("the login took longer than ten minutes; begin it anew")
        return attempt

    def _attempt(self, text: str, then: str, until_at_ms: int) -> Attempt:
        state, nonce, verifier = (self._derive(purpose, text) for purpose in ("state", "nonce", "verifier"))
        return Attempt(state, nonce, verifier, then, until_at_ms)

    def _derive(self, purpose: str, text: str) -> str:
        message = f"bentpipe oidc {purpose} {text}".encode("utf-8", "replace")
        return _base64(hmac.new(self.key, message, hashlib.sha256).digest())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _text_of(encoded: str) -> str:
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, ValueError):
        return "/"
