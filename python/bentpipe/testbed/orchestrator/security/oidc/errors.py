"""Errors of a login at a provider; their lines show neither codes, tokens nor secrets."""

from __future__ import annotations

from bentpipe.errors import BentpipeError


class LoginRefusedError(BentpipeError):
    """The login is not what it should be, or the provider refused it."""

    code = "login_refused"


class ProviderError(BentpipeError):
    """The provider cannot be reached, or answers what no provider should."""

    code = "provider"
