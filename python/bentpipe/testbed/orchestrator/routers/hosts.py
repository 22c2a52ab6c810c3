"""Refuse pages of other origins, and on the loopback names that do not lead to this machine (DNS rebinding)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.testbed.orchestrator.routers.answers import problem
from bentpipe.testbed.orchestrator.security.addresses import is_loopback

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send


class HostGuard:
    """Looks at ``Host`` and ``Origin`` before anything else does."""

    def __init__(self, app: ASGIApp, host: str, public: str | None = None) -> None:
        """Wrap an application that listens on `host`; `public`: name of a proxy before it."""
        self._app, self._is_local, self._public = app, is_loopback(host), public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http" and (refusal := self._refusal(scope)) is not None:
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            return problem(400, "http", "Bad request", "a NUL character in the address")
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1:
            return problem(400, "host", "Bad request", f"{len(hosts)} headers Host; expected one")
        host = hosts[0].lower()
        if self._is_local and not is_loopback(_name(host)) and _name(host) != self._public:
            return problem(421, "host", "Another host", "this address answers to localhost only")
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        if any(origin.partition("://")[2].lower() != host for origin in origins):
            return problem(403, "origin", "Another origin", "pages of other origins may not call this interface")
        return None


def _name(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0].strip("[]")
    return host.rpartition(":")[0] if ":" in host else host
