"""Arguments of the Python objects: times, durations, Profiles and choices in the forms that users have them in."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.times import parse_duration_ns, parse_utc

if TYPE_CHECKING:
    from bentpipe.runs.rows import Row

TimeLike = str | datetime | int | float
"""A time: ISO-8601 text, a `datetime` (both UTC unless they have an offset), or seconds since 1970."""

DurationLike = str | timedelta | int | float
"""A duration: seconds, a `timedelta`, or text such as ``"300s"``, ``"5min"`` or ``"10ms"``."""

FileLike = str | os.PathLike[str]
"""The path of a file or folder."""

Choice = TypeVar("Choice", bound=str)
Given = TypeVar("Given")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def unix_ns(value: TimeLike, where: str) -> int:
    """Return a time in nanoseconds since 1970. Raises `UserError` if it is none.

    Example:
        >>> unix_ns("2026-05-10T09:00Z", "start") == unix_ns(1778403600, "start")
        True
    """
    if isinstance(value, str):
        return parse_utc(value, where)
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MICROSECOND * 1000
    if is_finite(value):
        nanoseconds = float(cast("float", value)) * 1e9
        if math.isfinite(nanoseconds) and abs(nanoseconds) < 2**63:
            return int(value) * 10**9 if isinstance(value, Integral) else round(nanoseconds)
    raise UserError(shown(value), where=where, expected="ISO-8601 text, a datetime, or seconds since 1970")


def seconds(value: DurationLike, where: str) -> float:
    """Return a duration in seconds; the callee checks its range. Raises `UserError` if it is none.

    Example:
        >>> seconds("5min", "duration"), seconds(300, "duration")
        (300.0, 300.0)
    """
    if isinstance(value, str):
        return parse_duration_ns(value, where, least_ns=0) / 1e9
    if isinstance(value, timedelta):
        return value.total_seconds()
    if is_finite(value):
        return float(cast("float", value))
    raise UserError(shown(value), where=where, expected="seconds, a timedelta, or text such as '300s'")


def is_number(value: object) -> bool:
    """Tell whether a value is a real number and no bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_finite(value: object) -> bool:
    """Tell whether a value is a finite number that a float can hold, and no bool."""
    try:
        return is_number(value) and math.isfinite(float(cast("float", value)))
    except OverflowError:  # an integer of more than 308 digits
        return False


def number(value: object, where: str) -> float:
    """Return a finite number. Raises `UserError` for anything else."""
    if is_finite(value):
        return float(cast("float", value))
    raise UserError(shown(value), where=where, expected="a number")


def integer(value: object, where: str, least: int = 0) -> int:
    """Return an integer of at least `least`. Raises `UserError` for anything else."""
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least:
        return int(value)
    raise UserError(shown(value), where=where, expected=f"an integer of at least {least}")


def text(value: object, where: str, expected: str = "text") -> str:
    """Return text. Raises `UserError` for anything else; the message says that `expected` was."""
    if isinstance(value, str):
        return value
    raise UserError(shown(value), where=where, expected=expected)


def optional_text(value: object, where: str) -> str | None:
    """Return text or None. Raises `UserError` for anything else."""
    return None if value is None else text(value, where)


def choice(value: object, where: str, choices: Sequence[Choice]) -> Choice:
    """Return one of `choices`. Raises `UserError` with the nearest one for anything else."""
    for each in choices:
        if value == each:
            return each
    hint = did_you_mean(value, list(choices)) if isinstance(value, str) else ""
    raise UserError(f"{shown(value)}{hint}", where=where, expected=" or ".join(choices))


def texts(value: object, where: str) -> list[str]:
    """Return a list of texts from one text or several. Raises `UserError` for anything else."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Sequence) and all(isinstance(each, str) for each in value):
        return list(value)
    raise UserError(shown(value), where=where, expected="text or a list of texts")


def refuse_others(others: Mapping[str, object], where: str, names: Mapping[str, str]) -> None:
    """Refuse keyword arguments that a function does not have; `names` has its own for flags of other names.

    Raises:
        UserError: One of them is such a flag.
        TypeError: It is none, as from any Python function.
    """
    for name in others:
        if name in names:
            raise UserError(f"no argument {name}", where=where, expected=names[name])
        raise TypeError(f"{where}() got an unexpected keyword argument {name!r}")


def file(value: object, where: str) -> Path:
    """Return the path of a file or folder. Raises `UserError` if the value is none."""
    if isinstance(value, (str, os.PathLike)):
        name = os.fspath(value)
        if isinstance(name, str) and name and "\0" not in name:
            return Path(name)
    raise UserError(shown(value), where=where, expected="the path of a file or folder")


def mapping(value: object, where: str) -> Mapping[str, object]:
    """Return a mapping with texts as keys. Raises `UserError` for anything else."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return value
    raise UserError(shown(value), where=where, expected="a mapping with names as keys")


def page(value: object, where: str) -> Path:
    """Return the path of an HTML page. Raises `UserError` if the value is none."""
    path = file(value, where)
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(shown(str(path)), where=where, expected="a file that ends in .html")
    return path


def callback(function: Callable[[Given], object] | None, where: str) -> Callable[[Given], None]:
    """Return a function that calls the user's, or does nothing. Raises `UserError` if that is no function."""
    if function is None:
        return lambda _: None
    if not callable(function):
        raise UserError(shown(function), where=where, expected="a function")

    def call(value: Given) -> None:
        function(value)

    return call


def row_callback(on_row: Callable[[Row], object] | None, where: str) -> Callable[[bytes], None] | None:
    """Return a function that calls the user's with each row of lines of JSON; None for None.

    Raises:
        UserError: It is no function.
    """
    if on_row is None:
        return None
    from bentpipe.runs.rows import parse_rows

    call = callback(on_row, where)

    def on_rows(lines: bytes) -> None:
        for row in parse_rows(lines):
            call(row)

    return on_rows
