"""Durations, sizes, budgets and times in files: text with a unit, and a number in Python."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from bentpipe.errors import UserError, shown
from bentpipe.records import Record
from bentpipe.scenarios.units import MAX_RATE_BPS, MAX_SIZE_BYTES, parse_rate_bps, parse_size_bytes
from bentpipe.times import format_utc, parse_duration_ns, parse_utc

_PREFIX = {"k": 10**3, "M": 10**6, "G": 10**9}
LONGEST_S = 366 * 86_400.0
"""Longest duration [s]."""


def _duration_s(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (str, float, int)):
        raise UserError(f"{shown(value)} is no duration", expected="for example 500ms, 30s, 10m, 2h, 7d")
    seconds = parse_duration_ns(value, "", least_ns=0) / 1e9 if isinstance(value, str) else float(value)
    if not 0 <= seconds <= LONGEST_S:
        raise UserError(f"{shown(value)}", expected="a duration of 0 s to 366 days")
    return seconds


def duration_text(seconds: float) -> str:
    """Format a duration: ``90s``, ``10m``, ``500ms``.

    Example:
        >>> duration_text(600.0), duration_text(0.5), duration_text(90.0)
        ('10m', '500ms', '90s')
    """
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        if seconds >= length and seconds % length == 0:
            return f"{round(seconds / length)}{unit}"
    if seconds < 1 and round(seconds * 1000, 6) == round(seconds * 1000):
        return f"{round(seconds * 1000)}ms"
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


Duration = Annotated[
    float,
    BeforeValidator(_duration_s),
    PlainSerializer(duration_text, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string"}, {"type": "number", "minimum": 0}],
            "description": "Duration: 500ms, 30s, 10m, 7d",
        }
    ),
]
"""A duration in a file, as ``10m`` (a bare number is seconds); seconds in Python."""


def _size_bytes(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_SIZE_BYTES:
        return value
    if not isinstance(value, str):
        raise UserError(f"{shown(value)} is no size", expected="for example 500kB, 20MB, 2GB")
    return parse_size_bytes(value.strip().lower(), "")


def size_text(size_bytes: int) -> str:
    """Format a size: ``20MB``.

    Example:
        >>> size_text(2_000_000_000), size_text(1500), size_text(1501)
        ('2GB', '1.5kB', '1501bytes')
    """
    for prefix in ("G", "M", "k"):
        scaled = size_bytes / _PREFIX[prefix]
        if scaled >= 1 and round(scaled * 10) == scaled * 10:
            return f"{scaled:g}{prefix}B"
    return f"{size_bytes}bytes"


def about_size_text(size_bytes: int) -> str:
    """Format a size for people, to three digits.

    Example:
        >>> about_size_text(22_080), about_size_text(999), about_size_text(2_000_000_000)
        ('22.1 kB', '999 bytes', '2 GB')
    """
    for prefix in ("G", "M", "k"):
        if size_bytes >= _PREFIX[prefix]:
            return f"{size_bytes / _PREFIX[prefix]:.3g} {prefix}B"
    return f"{size_bytes} bytes"


Size = Annotated[
    int,
    BeforeValidator(_size_bytes),
    PlainSerializer(size_text, return_type=str, when_used="json"),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0}], "description": "Size: 20MB, 2GB"}
    ),
]
"""A size in a file, as ``20MB`` (a bare number is bytes); bytes in Python."""


def _rate_bps(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1000 <= value <= MAX_RATE_BPS:
        return value
    if not isinstance(value, str):
        raise UserError(f"{shown(value)} is no rate", expected="for example 500kbit, 20mbit")
    return parse_rate_bps(value.strip().lower(), "")


def rate_text(rate_bps: int) -> str:
    """Format a rate: ``20mbit``."""
    for prefix in ("G", "M", "k"):
        if rate_bps % _PREFIX[prefix] == 0:
            return f"{rate_bps // _PREFIX[prefix]}{prefix.lower()}bit"
    return f"{rate_bps}bit"


BitRate = Annotated[
    int,
    BeforeValidator(_rate_bps),
    PlainSerializer(rate_text, return_type=str, when_used="json"),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}], "description": "Rate: 500kbit, 20mbit"}),
]
"""A rate in a file, as ``20mbit`` (a bare number is bit/s); bit/s in Python."""

PERIODS_S = {"hour": 3600.0, "day": 86_400.0, "week": 7 * 86_400.0, "month": 30 * 86_400.0}
"""Periods of budgets [s]; a month is thirty days."""


class Budget(Record):
    """Bytes per sliding period.

    Example:
        >>> parse_budget("2GB/day")
        Budget(size_bytes=2000000000, period='day')
    """

    size_bytes: int
    """Bytes in both directions."""
    period: str
    """A key of `PERIODS_S`."""

    @property
    def period_s(self) -> float:
        """Length of the period [s]."""
        return PERIODS_S[self.period]


def parse_budget(value: object) -> Budget:
    """Parse ``2GB/day``. Raises `UserError`."""
    if isinstance(value, Budget):
        return value
    size, slash, period = value.partition("/") if isinstance(value, str) else ("", "", "")
    if not slash or period.strip() not in PERIODS_S:
        raise UserError(f"{shown(value)} is no budget", expected=f"for example 2GB/day ({', '.join(PERIODS_S)})")
    return Budget(size_bytes=_size_bytes(size), period=period.strip())


def budget_text(budget: Budget) -> str:
    """Format a budget: ``2GB/day``."""
    return f"{size_text(budget.size_bytes)}/{budget.period}"


ByteBudget = Annotated[
    Budget,
    BeforeValidator(parse_budget),
    PlainSerializer(budget_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "description": "Bytes per period: 2GB/day"}),
]
"""A budget in a file, as ``2GB/day``."""


def _at_ms(value: object) -> int:
    if isinstance(value, str):
        return parse_utc(value, "") // 10**6
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 253_402_300_799_000:
        return value
    raise UserError(f"{shown(value)} is not a time", expected="ISO-8601 such as 2026-12-01T10:00:00Z")


def at_text(at_ms: int) -> str:
    """Format a time [ms since 1970] as ISO-8601."""
    return format_utc(at_ms * 10**6)


Instant = Annotated[
    int,
    BeforeValidator(_at_ms),
    PlainSerializer(at_text, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "description": "ISO-8601 time; UTC unless it has an offset"}),
]
"""A time in a file, as ISO-8601 text; milliseconds since 1970 (UTC) in Python."""
