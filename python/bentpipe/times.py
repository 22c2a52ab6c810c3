"""UTC times as ISO-8601 text and nanoseconds since 1970 (without leap seconds, as in POSIX), and durations."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from bentpipe.errors import UserError, shown

_ISO = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?P<time>[0-9]{2}:[0-9]{2}(?P<seconds>:[0-9]{2}(?:[.,](?P<fraction>[0-9]{1,9}))?)?)"
    r"(?P<offset>Z|[+-][0-9]{2}:?[0-9]{2})?)?\Z",
    re.IGNORECASE,
)
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(ms|s|min|m|h|d|)\Z")
_UNITS_NS = {
    "ms": 10**6,
    "": 10**9,
    "s": 10**9,
    "m": 60 * 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
#: Default start of a Profile or a series of routes: the example in the docs, so that results without ``--start`` are
#: the same on every day.
DEFAULT_START_UTC = "2026-05-10T09:00:00Z"
SLOT_S, SLOT_PHASE_S = 15, 12
"""Slots of the network's scheduler begin at :12, :27, :42 and :57 of every minute: period and second of the minute [s]
(Tanveer et al., arXiv:2307.00402)."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def aligned_ns(duration_ns: int) -> int:
    """Return the period modulo which an emulated Profile keeps the machine's second, for its duration, both in ns.

    From two minutes on it is the minute, below the slot.

    Example:
        >>> from bentpipe.times import aligned_ns
        >>> aligned_ns(100 * 10**9), aligned_ns(200 * 10**9)
        (15000000000, 60000000000)
    """
    return 60 * 10**9 if duration_ns >= 120 * 10**9 else SLOT_S * 10**9


def parse_utc(text: str, where: str = "time") -> int:
    """Parse an ISO-8601 time such as ``2026-05-10T09:00:00Z`` into nanoseconds since 1970-01-01T00:00:00Z.

    Without an offset it is UTC. A date alone is its midnight. Up to nine decimals of a second count.

    Args:
        text: The time.
        where: Its name in messages (``--start``).

    Raises:
        UserError: It is no such time.
    """
    match = _ISO.match(text.strip())
    refused = UserError(
        f"{shown(text)} is not a time",
        where=where,
        expected="ISO-8601 such as 2026-05-10T09:00:00Z (UTC unless it has an offset)",
    )
    if match is None:
        raise refused
    time = (match["time"] or "00:00").replace(",", ".").partition(".")[0]
    offset = (match["offset"] or "Z").upper().replace("Z", "+00:00")
    try:
        instant = datetime.fromisoformat(f"{match['date']}T{time}{offset}")
        seconds = (instant - _EPOCH) // _SECOND
    except (ValueError, OverflowError):
        raise refused from None
    unix_ns = seconds * 10**9 + int((match["fraction"] or "0").ljust(9, "0"))
    if not -(2**63) <= unix_ns < 2**63:  # years 1677 to 2262
        raise refused
    return unix_ns


def format_utc(unix_ns: int) -> str:
    """Format ISO-8601 with ``Z`` and as many decimals of a second as `unix_ns` needs (none, 3, 6 or 9)."""
    seconds, nanos = divmod(unix_ns, 10**9)
    text = (_EPOCH + seconds * _SECOND).strftime("%Y-%m-%dT%H:%M:%S")
    if not nanos:
        return f"{text}Z"
    digits = f"{nanos:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}Z"


def parse_duration_ns(text: str, where: str, *, least_ns: int = 1) -> int:
    """Parse a duration such as ``0.01`` (seconds), ``10ms``, ``90s``, ``15m``, ``2h`` or ``7d`` into nanoseconds.

    Args:
        text: The duration.
        where: Its name in messages (``--for``).
        least_ns: Shortest duration that is accepted [ns].

    Raises:
        UserError: It is no such duration, or shorter than `least_ns`.
    """
    match = _DURATION.match(text.strip().lower())
    duration_ns = round(Fraction(match[1]) * _UNITS_NS[match[2]]) if match else -1
    if duration_ns < least_ns:
        raise UserError(
            f"{shown(text)} is not a duration", where=where, expected="seconds, or for example 10ms, 90s, 15m, 2h, 7d"
        )
    return duration_ns
