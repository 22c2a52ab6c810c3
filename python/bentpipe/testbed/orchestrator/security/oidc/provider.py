"""The provider: its discovery document, its keys, and the exchange of a code for an ID token."""

from __future__ import annotations

import asyncio
import base64
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from bentpipe.errors import UserError
from bentpipe.testbed.orchestrator.security.oidc.calls import call_json
from bentpipe.testbed.orchestrator.security.oidc.errors import LoginRefusedError, ProviderError
from bentpipe.testbed.orchestrator.security.oidc.id_tokens import Identity, UnknownKeyError, verify
from bentpipe.testbed.orchestrator.security.oidc.settings import OidcSettings, check_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe.testbed.orchestrator.security.oidc.attempts import Attempt

KEPT_MS = 3_600_000
"""How long the discovery document and keys are kept [ms]."""
PAUSE_MS = 10_000
"""Time between two requests for keys, and after a request that failed [ms]."""
MOST_KEYS = 100
MOST_EXCHANGES = 8
"""Codes that are traded at once: anybody can begin a login and come back with a code of their own making."""
_CODE = re.compile(r"[a-z_]{1,40}\Z")


@dataclass(frozen=True)
class Endpoints:
    """What the discovery document says.

    Attributes:
        authorize: Address to which the browser goes.
        token: Address that trades codes.
        keys: Address of the keys.
        by_form: Whether the secret goes in the form and not in a header.
        scopes: Scopes that it knows.
        names_issuer: Whether it names itself in its answers (RFC 9207).
    """

    authorize: str
    token: str
    keys: str
    by_form: bool
    scopes: frozenset[str]
    names_issuer: bool


@dataclass
class Provider:
    """Asks a provider.

    Attributes:
        settings: Its address, our name and secret.
        clock: Time [ms since 1970].
    """

    settings: OidcSettings
    clock: Callable[[], int]
    _endpoints: tuple[int, Endpoints] | None = None
    _failed: tuple[int, ProviderError] | None = None
    _keys: tuple[int, list[dict[str, Any]]] | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _exchanges: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_EXCHANGES))

    async def endpoints(self) -> Endpoints:
        """Return the provider's addresses; they are kept for an hour. Raises `ProviderError`."""
        async with self._lock:
            now_ms = self.clock()
            if self._endpoints is not None and now_ms - self._endpoints[0] < KEPT_MS:
                return self._endpoints[1]
            if self._failed is not None and now_ms - self._failed[0] < PAUSE_MS:
                raise ProviderError(str(self._failed[1]))
            try:
                endpoints = await self._discover()
            except ProviderError as error:
                self._failed = (self.clock(), error)
                raise
            self._endpoints = (now_ms, endpoints)
            return endpoints

    async def _discover(self) -> Endpoints:
        issuer = self.settings.issuer
        status, data = await call_json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if status != 200:
            raise ProviderError(f"the provider answered status {status} for its discovery document")
        if data.get("issuer") != issuer:
            raise ProviderError("the provider's discovery document names another issuer; compare --oidc-issuer")
        schemes = ("https://", "http://") if issuer.startswith("http://") else ("https://",)
        urls = {}
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            try:
                urls[name] = check_url(str(data.get(name, "none")), name, is_issuer=False)
            except UserError:
                urls[name] = ""
            if not urls[name].startswith(schemes):
                raise ProviderError(f"the provider's discovery document has no {name} with https://")
        methods = data.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        scopes = data.get("scopes_supported", ["openid", "profile"])
        return Endpoints(
            urls["authorization_endpoint"],
            urls["token_endpoint"],
            urls["jwks_uri"],
            isinstance(methods, list) and "client_secret_basic" not in methods and "client_secret_post" in methods,
            frozenset(each for each in scopes if isinstance(each, str)) if isinstance(scopes, list) else frozenset(),
            data.get("authorization_response_iss_parameter_supported") is True,
        )

    async def identity(self, code: str, attempt: Attempt, redirect: str) -> Identity:
        """Trade a code for an ID token, and return who it is about.

        Raises:
            LoginRefusedError: The provider refuses the code, or the token is not what it should be.
            ProviderError: The provider does not answer as it should.
        """
        token = await self._exchange(code, attempt, redirect)
        now_s = self.clock() // 1000
        expected = {"issuer": self.settings.issuer, "client": self.settings.client, "nonce": attempt.nonce}
        keys = await self._published(newer=False)
        try:
            return verify(token, keys, now_s=now_s, **expected)
        except UnknownKeyError:
            return verify(token, await self._published(newer=True), now_s=now_s, **expected)

    async def _exchange(self, code: str, attempt: Attempt, redirect: str) -> str:
        endpoints = await self.endpoints()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "code_verifier": attempt.verifier,
        }
        headers = {}
        if endpoints.by_form:
            form |= {"client_id": self.settings.client, "client_secret": self.settings.secret}
        else:  # RFC 6749, section 2.3.1: both are encoded as in a form
            pair = f"{quote_plus(self.settings.client)}:{quote_plus(self.settings.secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        async with self._exchanges:
            status, answer = await call_json(endpoints.token, form=form, headers=headers)
        token = answer.get("id_token")
        if status == 200 and isinstance(token, str):
            return token
        if status >= 500:
            raise ProviderError(f"the provider answered status {status} for the code")
        raise LoginRefusedError(f"the provider refused the code: {error_code(answer.get('error'))}")

    async def _published(self, *, newer: bool) -> list[dict[str, Any]]:
        """Return the provider's keys; `newer`: ask again, though not more often than every ten seconds."""
        endpoints = await self.endpoints()
        async with self._lock:
            now_ms = self.clock()
            if self._keys is not None and now_ms - self._keys[0] < (PAUSE_MS if newer else KEPT_MS):
                return self._keys[1]
            status, data = await call_json(endpoints.keys)
            keys = data.get("keys")
            if status != 200 or not isinstance(keys, list):
                raise ProviderError(f"the provider answered status {status} without keys")
            fresh = [each for each in keys[:MOST_KEYS] if isinstance(each, dict)]
            self._keys = (now_ms, fresh)
            return fresh


def error_code(value: object) -> str:
    """Return a provider's code of an error, or that it has none: nothing else of it is shown.

    Example:
        >>> error_code("access_denied"), error_code("<b>")
        ('access_denied', 'without a reason')
    """
    return value if isinstance(value, str) and _CODE.match(value) else "without a reason"
