"""``builtin.json``: what a built-in experiment did, its figures, and what failed."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from bentpipe.errors import BentpipeError
from bentpipe.records import Record

FILE = "builtin.json"


class NetworkFailureError(BentpipeError):
    """The network, or the other end, failed: a result of the measurement."""


class Outcome(Record):
    """``builtin.json``."""

    format: int = 1
    """Number of the format."""
    builtin: str
    """Name of the experiment."""
    args: dict[str, Any]
    """All its arguments, defaults included."""
    server: str | None
    """Name or address of the server; null: none."""
    error: str | None
    """What failed on the network or at the other end, in one line; null: nothing."""
    figures: dict[str, Any] = Field(default_factory=dict)
    """Figures of the experiment that the tables of a measured Run have no place for."""


def one_line(text: str) -> str:
    r"""Return a message of a tool as one line of at most 300 characters.

    Example:
        >>> one_line(" no route\n to host ")
        'no route to host'
    """
    return " ".join(text.split())[:300]
