"""Errors of services, apart from a user's mistake in a file or an argument (`UserError`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.errors import BentpipeError

if TYPE_CHECKING:
    from collections.abc import Mapping


class RefusedError(BentpipeError):
    """A request that is understood and refused.

    Attributes:
        extra: More about it, as the conflicts of a booking.
    """

    code = "refused"

    def __init__(self, text: str, *, code: str | None = None, extra: Mapping[str, Any] | None = None) -> None:
        """Keep the reason; `code` replaces that of the class."""
        super().__init__(text)
        self.extra = dict(extra or {})
        if code is not None:
            self.code = code


class NotFoundError(RefusedError):
    """There is no such thing, or this caller may not know of it."""

    code = "not_found"


class ConflictError(RefusedError):
    """The state of things forbids it."""

    code = "conflict"


class StaleFenceError(ConflictError):
    """The assignment is an older one: the agent stops that run."""

    code = "stale_fence"


class UnauthenticatedError(RefusedError):
    """It is unknown who calls."""

    code = "unauthenticated"


class ForbiddenError(RefusedError):
    """The caller may not do that."""

    code = "forbidden"


class TooLargeError(RefusedError):
    """More than is accepted."""

    code = "too_large"


class QuotaError(RefusedError):
    """No room for it: the caller keeps it and tries again."""

    code = "quota"


class BusyError(RefusedError):
    """Not now: the caller tries again later."""

    code = "busy"
