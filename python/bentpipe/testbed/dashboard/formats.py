"""Texts of numbers and times on pages: every number with its unit, every time in UTC.

What comes from a node, a file or a user is escaped by the templates; here only numbers become markup.
"""

from __future__ import annotations

from datetime import UTC, datetime

from markupsafe import Markup, escape

from bentpipe.errors import printable

NONE = "–"
_DECIMAL = ("", "k", "M", "G", "T", "P")
_PREFIXED = ("B", "bit/s")
_BIDI = {
    ord(each): "\N{REPLACEMENT CHARACTER}"
    for each in "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c"
}
"""Characters that change the direction of a text: a name with them could read like another one."""


def plain(text: object) -> str:
    r"""Return a text without control characters and without changes of its direction.

    Example:
        >>> plain("a\u202eb\x1b")
        'a�b�'
    """
    return printable(str(text)).translate(_BIDI)


def name(text: object) -> Markup:
    """Return a name as markup that keeps its direction to itself.

    Example:
        >>> name("<b>")
        Markup('<bdi>&lt;b&gt;</bdi>')
    """
    return Markup("<bdi>") + escape(plain(text)) + Markup("</bdi>")


def scaled(value: float | None, unit: str) -> str:
    """Return a number with its unit; bytes and rates have a decimal prefix.

    Example:
        >>> scaled(2_500_000, "bit/s"), scaled(0, "B"), scaled(None, "B")
        ('2.5 Mbit/s', '0 B', '–')
    """
    if value is None:
        return NONE
    size, step = abs(float(value)), 0
    while size >= 999.5 and unit in _PREFIXED and step < len(_DECIMAL) - 1:
        size, step = size / 1000, step + 1
    digits = f"{size:.3g}" if size < 100 else f"{size:.0f}"
    return f"{'-' if value < 0 else ''}{digits} {_DECIMAL[step]}{unit}".rstrip()


def size(value: float | None) -> str:
    """Return bytes with a prefix."""
    return scaled(value, "B")


def rate(value: float | None) -> str:
    """Return a rate [bit/s] with a prefix."""
    return scaled(value, "bit/s")


def milliseconds(value: float | None) -> str:
    """Return a time [ms] with one digit after the point."""
    return NONE if value is None else f"{value:.1f} ms"


def duration(value_s: float | None) -> str:
    """Return a duration in its two largest units.

    Example:
        >>> duration(57), duration(3720), duration(90_000), duration(0.25)
        ('57 s', '1 h 2 min', '1 d 1 h', '0.25 s')
    """
    if value_s is None:
        return NONE
    if value_s < 60:
        return f"{value_s:.3g} s"
    whole = round(value_s)
    parts = [(whole // 86_400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    first = next(index for index, (count, _) in enumerate(parts) if count)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count)


def utc_text(at_ms: float) -> str:
    """Return a time [ms since 1970] to the second.

    Example:
        >>> utc_text(1_790_000_000_000)
        '2026-09-21 14:13:20 UTC'
    """
    return f"{_moment(at_ms):%Y-%m-%d %H:%M:%S} UTC"


def utc(at_ms: float | None) -> Markup:
    """Return a time as ``<time>``; the page's script adds the local time as its title."""
    if at_ms is None:
        return Markup(NONE)
    return Markup('<time datetime="{}">{}</time>').format(f"{_moment(at_ms):%Y-%m-%dT%H:%M:%SZ}", utc_text(at_ms))


def clock(at_ms: float) -> Markup:
    """Return the time of day with milliseconds as ``<time>``."""
    moment = _moment(at_ms)
    text = f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"
    return Markup('<time datetime="{}">{}</time>').format(f"{moment:%Y-%m-%dT%H:%M:%S}.{text[-3:]}Z", text)


def _moment(at_ms: float) -> datetime:
    return datetime.fromtimestamp(min(max(at_ms, 0), 253_402_300_799_000) / 1000, UTC)


def ago(at_ms: int | None, now_ms: int) -> str:
    """Return how long ago a time was.

    Example:
        >>> ago(1_000, 13_000), ago(None, 0), ago(5_000, 1_000)
        ('12 s ago', 'never', 'in 4 s')
    """
    if at_ms is None:
        return "never"
    passed_s = round((now_ms - at_ms) / 1000)
    return f"in {duration(-passed_s)}" if passed_s < 0 else f"{duration(passed_s)} ago"
