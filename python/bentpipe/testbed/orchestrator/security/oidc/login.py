"""The login at a provider as the routers use it: where the browser goes, and who came back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from bentpipe.errors import UserError
from bentpipe.testbed.orchestrator.security.addresses import is_loopback
from bentpipe.testbed.orchestrator.security.oidc.attempts import Attempt, Attempts
from bentpipe.testbed.orchestrator.security.oidc.errors import LoginRefusedError
from bentpipe.testbed.orchestrator.security.oidc.provider import Provider, error_code
from bentpipe.testbed.orchestrator.security.oidc.roles import RoleMap

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bentpipe.testbed.orchestrator.security.oidc.id_tokens import Identity
    from bentpipe.testbed.orchestrator.security.oidc.settings import OidcSettings

CALLBACK = "/login/oidc/callback"
"""Path to which the provider sends browsers back."""
_LONGEST_CODE = 4096


@dataclass
class OidcLogin:
    """Logs people in at one provider.

    Attributes:
        settings: The settings.
        dashboard: Address of the dashboard as browsers see it.
        provider: The provider.
        attempts: Logins that began.
    """

    settings: OidcSettings
    dashboard: str
    provider: Provider
    attempts: Attempts

    @classmethod
    def open(
        cls, settings: OidcSettings, key: bytes, clock: Callable[[], int], url: str, public: str | None
    ) -> OidcLogin:
        """Check what the start can check; the provider is not asked, it may be down.

        Raises:
            UserError: A damaged file of roles, or no address of the dashboard with TLS.
        """
        RoleMap.read(settings.roles)
        dashboard = settings.dashboard or (url if public is None else f"https://{public}")
        if not dashboard.startswith("https://") and not is_loopback(urlsplit(dashboard).hostname or ""):
            raise UserError("missing", where="oidc_url", expected="https://… of the dashboard as browsers see it")
        return cls(settings, dashboard, Provider(settings, clock), Attempts(key, clock))

    @property
    def redirect(self) -> str:
        """The redirect URI, which is fixed."""
        return self.dashboard + CALLBACK

    @property
    def name(self) -> str:
        """The provider's name on the page."""
        return urlsplit(self.settings.issuer).netloc

    @property
    def is_secure(self) -> bool:
        """Whether browsers use TLS."""
        return self.dashboard.startswith("https://")

    async def begin(self, then: str) -> tuple[str, str]:
        """Return the address to which the browser goes, and its cookie. Raises `ProviderError`."""
        endpoints = await self.provider.endpoints()
        cookie, attempt = self.attempts.begin(then)
        wanted = ("profile", RoleMap.read(self.settings.roles).claim)
        parameters = {
            "response_type": "code",
            "client_id": self.settings.client,
            "redirect_uri": self.redirect,
            "scope": " ".join(("openid", *(each for each in wanted if each in endpoints.scopes))),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in endpoints.authorize else "?"
        return f"{endpoints.authorize}{joint}{urlencode(parameters)}", cookie

    async def finish(
        self, cookie: str, answer: dict[str, list[str]], use: Callable[[Attempt], Awaitable[bool]]
    ) -> tuple[Identity, str | None, str]:
        """Return who came back, with which role (None: none), and the page that was wanted.

        Args:
            cookie: The browser's cookie.
            answer: The provider's answer: parameters of the address.
            use: Notes for all processes that an attempt is used; False: it was used before.

        Raises:
            LoginRefusedError: The attempt, the provider's answer or its token is not what it should be.
            ProviderError: The provider does not answer as it should.
            UserError: The file of roles is damaged.
        """
        attempt = self.attempts.check(cookie, _one(answer, "state"))
        if not await use(attempt):
            raise LoginRefusedError("this login was used before; begin it anew")
        identity = await self._identity(attempt, answer)
        roles = RoleMap.read(self.settings.roles)
        return identity, roles.role_of(identity.subject, identity.groups(roles.claim)), attempt.then

    async def _identity(self, attempt: Attempt, answer: dict[str, list[str]]) -> Identity:
        endpoints = await self.provider.endpoints()
        issuer = _one(answer, "iss")
        if (issuer or endpoints.names_issuer) and issuer != self.settings.issuer:
            raise LoginRefusedError("the answer is of another provider; begin the login anew")
        if "error" in answer:
            raise LoginRefusedError(f"the provider refused the login: {error_code(_one(answer, 'error'))}")
        code = _one(answer, "code")
        if not 0 < len(code) <= _LONGEST_CODE:
            raise LoginRefusedError("the provider's answer has no code; begin the login anew")
        return await self.provider.identity(code, attempt, self.redirect)


def _one(answer: dict[str, list[str]], name: str) -> str:
    """Return the value of a parameter; empty: there is none, or several."""
    values = answer.get(name, [])
    return values[0] if len(values) == 1 else ""
