"""Errors of the interfaces: RFC 9457 with a stable code."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from bentpipe.records import Record

MEDIA_TYPE = "application/problem+json"


class Problem(Record):
    """An error as JSON."""

    type: str = "about:blank"
    """Kind."""
    title: str
    """Short sentence of the kind."""
    status: int = Field(ge=400, le=599)
    """HTTP status."""
    detail: str
    """One line: where, what came, what was expected, what to do."""
    code: str
    """Stable name for programs."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """More, as the conflicts of a booking."""
