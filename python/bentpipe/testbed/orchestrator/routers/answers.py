"""Answers: records as JSON, errors as problems (RFC 9457), headers of every answer."""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError
from starlette.responses import Response

from bentpipe.errors import BentpipeError, UserError
from bentpipe.testbed.orchestrator.services.refusals import RefusedError
from bentpipe.testbed.schemas.problem import MEDIA_TYPE, Problem

if TYPE_CHECKING:
    from starlette.requests import Request

    from bentpipe.records import Record

log = logging.getLogger("bentpipe.testbed")

STATUSES = {
    "invalid": (422, "Invalid request"),
    "unauthenticated": (401, "Unknown caller"),
    "forbidden": (403, "Not allowed"),
    "not_found": (404, "Not there"),
    "conflict": (409, "Conflict"),
    "stale_fence": (409, "An older assignment"),
    "older_agent": (409, "An older agent"),
    "name_taken": (409, "The name is taken"),
    "wrong_offset": (409, "Another offset"),
    "idempotency": (409, "The key was used for another request"),
    "too_large": (413, "Too large"),
    "quota": (507, "Quota"),  # agents keep what a 5xx refuses, and try again
    "busy": (503, "Busy"),
    "http": (400, "Bad request"),
}
"""Code of an error → status and title; other codes of a user's mistake are 422."""

SECURITY_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Headers of every answer."""


def json_answer(record: Record, status: int = 200) -> Response:
    """Return a record as JSON."""
    return Response(record.model_dump_json(by_alias=True), status, media_type="application/json")


def problem(
    status: int,
    code: str,
    title: str,
    detail: str,
    extra: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an error as a problem."""
    record = Problem(title=title, status=status, detail=detail, code=code, extra=dict(extra or {}))
    return Response(record.model_dump_json(), status, media_type=MEDIA_TYPE, headers=dict(headers or {}))


def problem_of(error: Exception) -> Response:
    """Return a problem for an error of a service; a fault of ours is logged and says nothing of its inside."""
    if isinstance(error, RefusedError):
        status, title = STATUSES.get(error.code, (409, "Refused"))
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        if error.code == "wrong_offset":
            headers["Upload-Offset"] = str(error.extra["offset"])
        return problem(status, error.code, title, str(error), error.extra, headers)
    if isinstance(error, UserError):
        status, title = STATUSES.get(error.code, STATUSES["invalid"])
        extra = {"where": error.where, "found": error.found, "expected": error.expected, "hint": error.hint}
        return problem(status, error.code, title, str(error), {key: text for key, text in extra.items() if text})
    if isinstance(error, BentpipeError):
        log.error("%s", error)
        return problem(500, error.code, "Fault of the testbed", str(error))
    trouble = trouble_of(error)
    if trouble is not None:
        log.error("%s: %s", trouble, " ".join(str(error).split())[:200])
        return problem(503, "unavailable", "Not available now", f"{trouble}; try again later")
    log.error("fault", exc_info=error)
    return problem(500, "fault", "Fault of the testbed", "a fault of the testbed; its operator finds it in the log")


def status_and_text(error: Exception) -> tuple[int, str]:
    """Return the status of an error of a service and its line, for a page."""
    answer = problem_of(error)
    return answer.status_code, str(json.loads(bytes(answer.body))["detail"])


def trouble_of(error: BaseException) -> str | None:
    """Return what the testbed lacks at the moment, if that is the reason of an error.

    Example:
        >>> trouble_of(OSError(28, "No space left on device")), trouble_of(ValueError())
        ('the disk of the orchestrator is full', None)
    """
    cause = getattr(error, "orig", None) or error
    text = str(cause)
    if getattr(error, "errno", None) == errno.ENOSPC or "disk is full" in text or "No space left" in text:
        return "the disk of the orchestrator is full"
    if getattr(error, "connection_invalidated", False) or isinstance(cause, ConnectionError):
        return "the database of the orchestrator does not answer"
    state = str(getattr(cause, "sqlstate", None) or "")
    if state.startswith(("08", "57P")) or "the database system is" in text:  # PostgreSQL's classes of errors
        return "the database of the orchestrator does not answer"
    return None


async def on_error(_: Request, error: Exception) -> Response:
    """Handle an exception of a route."""
    return problem_of(error)


async def on_http_error(_: Request, error: Exception) -> Response:
    """Handle an error of the framework, as an unknown address."""
    status = int(getattr(error, "status_code", 500))
    titles = {404: "Not there", 405: "Another method is expected", 413: "Too large"}
    codes = {404: "not_found", 405: "method", 413: "too_large"}
    title = titles.get(status, "Bad request")
    headers = getattr(error, "headers", None)
    return problem(status, codes.get(status, "http"), title, str(getattr(error, "detail", title)), None, headers)


HANDLERS: Mapping[Any, Any] = {Exception: on_error, OSError: on_error, DBAPIError: on_error}
"""Handlers of an application. Starlette raises once more what is handled as `Exception`, and not the others."""
