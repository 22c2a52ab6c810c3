"""Validated access to foreign JSON; every error names the place."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from bentpipe.errors import UserError, shown

#: Longest RTT accepted [ms]: a minute.
MAX_RTT_MS = 60_000.0

#: Highest rate accepted [bit/s], the same as in a Profile.
MAX_BPS = 1e15

#: Largest count accepted: the maximum of a 64-bit column.
MAX_COUNT = 2**63 - 1

#: Lowest and highest altitude of a terminal or server [m above the WGS84 ellipsoid]: slightly beyond the Dead Sea's
#: shore (-430 m) and Mount Everest's summit (8849 m).
ALTITUDE_RANGE_M = (-500.0, 9000.0)


def parse_json(where: str, data: bytes | str) -> Any:  # noqa: ANN401 - JSON is anything
    """Parse the JSON document in `data`. Raises `UserError` that names the line of `where`."""
    try:
        document = json.loads(data)
        refuse_surrogates(where, data, document)
    except json.JSONDecodeError as error:
        raise UserError(_invalid_json(where, error)) from None
    except UserError:
        raise
    except (ValueError, RecursionError) as error:
        raise UserError(f"is not usable JSON ({error})", where=where) from None
    return document


#: Escape of a surrogate. A pair encodes one character; a lone one is invalid, although JSON parsers accept it.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def refuse_surrogates(where: str, text: bytes | str, value: Any) -> None:  # noqa: ANN401 - JSON is anything
    """Raise `UserError` if `value`, parsed from `text`, has a lone surrogate: tables and messages cannot encode it."""
    if lone := _lone_surrogate(text, value):
        raise UserError(f"{lone} is half of a surrogate pair", where=where, expected="whole Unicode characters")


def _lone_surrogate(text: bytes | str, value: Any) -> str | None:  # noqa: ANN401 - JSON is anything
    if not _SURROGATE.search(text if isinstance(text, str) else text.decode("utf-8", "replace")):
        return None
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return ascii(error.object[error.start])
    return None


_MORE = re.compile(r"\S")


def documents(where: str, data: bytes) -> Iterator[tuple[Any, int]]:
    """Yield the concatenated JSON documents in `data`, each with the byte offset of its end.

    Documents follow each other: one per line, or as ``>>`` appends them.

    Raises:
        UserError: A document is invalid, or `data` is not UTF-8; the line is named.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"is not UTF-8 text (byte 0x{data[error.start]:02x})", where=f"{where}:{line}") from None
    decoder, place, ended = json.JSONDecoder(), 0, 0
    has_surrogates = bool(_SURROGATE.search(text))
    while more := _MORE.search(text, place):
        try:
            document, end = decoder.raw_decode(text, more.start())
            lone = _lone_surrogate(text[more.start() : end], document) if has_surrogates else None
        except json.JSONDecodeError as error:
            raise UserError(_invalid_json(where, error)) from None
        except (ValueError, RecursionError) as error:
            raise UserError(f"is not usable JSON ({error})", where=where) from None
        if lone is not None:
            line = text.count("\n", 0, more.start()) + 1
            raise UserError(
                f"{lone} is half of a surrogate pair", where=f"{where}:{line}", expected="whole Unicode characters"
            )
        ended += end - place if text.isascii() else len(text[place:end].encode())
        place = end
        yield document, ended


def _invalid_json(where: str, error: json.JSONDecodeError) -> str:
    return f"{where}:{error.lineno}: is not JSON ({error.msg.lower()} at column {error.colno})"


def member(where: str, value: Any, key: str, kind: type | tuple[type, ...]) -> Any:  # noqa: ANN401 - JSON is anything
    """Return ``value[key]``, of type `kind`. Raises `UserError` that names the place."""
    if not isinstance(value, dict) or key not in value:
        raise UserError(f"has no {shown(key)}", where=where)
    item = value[key]
    # bool is a subclass of int in Python, but not a number in JSON.
    expected = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(item, expected) or (isinstance(item, bool) and bool not in expected):
        raise UserError(f"{shown(item)} is of the wrong type", where=f"{where}.{key}")
    return item


def number(where: str, value: Any, low: float, high: float, unit: str) -> float:  # noqa: ANN401 - JSON is anything
    """Return `value` as a number from `low` to `high`. Raises `UserError` that names the place."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not low <= value <= high
        or not math.isfinite(value)
    ):
        raise UserError(f"{shown(value)} is out of range", where=where, expected=f"{low:g} to {high:g} {unit}")
    return float(value)


def number_of(where: str, entry: Any, key: str, high: float, unit: str) -> float:  # noqa: ANN401 - JSON is anything
    """Return ``entry[key]`` as a number from 0 to `high`. Raises `UserError` that names the place."""
    return number(f"{where}.{key}", member(where, entry, key, (int, float)), 0, high, unit)


def count_of(where: str, entry: Any, key: str) -> int:  # noqa: ANN401 - JSON is anything
    """Return ``entry[key]`` as a count. Raises `UserError` that names the place."""
    item = member(where, entry, key, int)
    if not 0 <= item <= MAX_COUNT:
        raise UserError(f"{shown(item)} is out of range", where=f"{where}.{key}", expected="a count")
    return int(item)


def count_if(where: str, entry: Any, key: str) -> int | None:  # noqa: ANN401 - JSON is anything
    """Return `count_of`, or None if there is no `key`."""
    return count_of(where, entry, key) if isinstance(entry, dict) and key in entry else None


def text_of(where: str, entry: Any, key: str) -> str:  # noqa: ANN401 - JSON is anything
    """Return ``entry[key]`` as one line of at most 200 characters. Raises `UserError` that names the place."""
    item = str(member(where, entry, key, str))
    if len(item) > 200 or not item.isprintable():
        raise UserError(f"{shown(item)} is of the wrong type", where=f"{where}.{key}")
    return item
