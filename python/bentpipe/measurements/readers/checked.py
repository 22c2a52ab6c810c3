"""Numbers and members of other people's JSON, checked; every refusal names the place."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from bentpipe.errors import UserError, shown

#: Longest RTT accepted [ms]: a minute.
MAX_RTT_MS = 60_000.0

#: Highest rate accepted [bit/s], as the Profile itself.
MAX_BPS = 1e15

#: Largest count accepted: what a table's 64-bit column holds.
MAX_COUNT = 2**63 - 1

#: Lowest and highest altitude of a terminal or server [m above the WGS84 ellipsoid]: a little beyond the Dead Sea's
#: shore (-430 m) and Mount Everest's summit (8849 m).
ALTITUDE_RANGE_M = (-500.0, 9000.0)


def parse_json(where: str, data: bytes | str) -> Any:  # noqa: ANN401 - JSON is anything
    """The JSON document in `data`. Raises `UserError` that names the line of `where`."""
    try:
        found = json.loads(data)
        refuse_surrogates(where, data, found)
    except json.JSONDecodeError as error:
        raise UserError(_no_json(where, error)) from None
    except UserError:
        raise
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: is not usable JSON ({error})") from None
    return found


#: Escape of a surrogate. Two of them are a character; one alone is none, although JSON parsers accept it.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def refuse_surrogates(where: str, text: bytes | str, found: Any) -> None:  # noqa: ANN401 - JSON is anything
    """Raise `UserError` if `found`, parsed from `text`, holds a lone surrogate: no table and no message takes one."""
    if lone := _lone_surrogate(text, found):
        raise UserError(f"{where}: {lone} is half of a surrogate pair; expected whole Unicode characters")


def _lone_surrogate(text: bytes | str, found: Any) -> str | None:  # noqa: ANN401 - JSON is anything
    if not _SURROGATE.search(text if isinstance(text, str) else text.decode("utf-8", "replace")):
        return None
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        return ascii(error.object[error.start])
    return None


_MORE = re.compile(r"\S")


def documents(where: str, data: bytes) -> Iterator[tuple[Any, int]]:
    """The JSON documents in `data`, each with the byte where it ends.

    They stand behind each other: one a line, or as ``>>`` appends them.

    Raises:
        UserError: One of them is none, or this is not UTF-8; the line is named.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{where}:{line}: is not UTF-8 text (byte 0x{data[error.start]:02x})") from None
    decoder, place, ended = json.JSONDecoder(), 0, 0
    has_surrogates = bool(_SURROGATE.search(text))
    while more := _MORE.search(text, place):
        try:
            found, end = decoder.raw_decode(text, more.start())
            lone = _lone_surrogate(text[more.start() : end], found) if has_surrogates else None
        except json.JSONDecodeError as error:
            raise UserError(_no_json(where, error)) from None
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}: is not usable JSON ({error})") from None
        if lone is not None:
            line = text.count("\n", 0, more.start()) + 1
            raise UserError(f"{where}:{line}: {lone} is half of a surrogate pair; expected whole Unicode characters")
        ended += end - place if text.isascii() else len(text[place:end].encode())
        place = end
        yield found, ended


def _no_json(where: str, error: json.JSONDecodeError) -> str:
    return f"{where}:{error.lineno}: is not JSON ({error.msg.lower()} at column {error.colno})"


def member(where: str, value: Any, key: str, kind: type | tuple[type, ...]) -> Any:  # noqa: ANN401 - JSON is anything
    """``value[key]``, of type `kind`. Raises `UserError` that names the place."""
    if not isinstance(value, dict) or key not in value:
        raise UserError(f"{where}: has no {shown(key)}")
    found = value[key]
    # A bool is an int to Python, but not to JSON.
    wanted = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(found, wanted) or (isinstance(found, bool) and bool not in wanted):
        raise UserError(f"{where}.{key}: {shown(found)} is not what is wanted there")
    return found


def number(where: str, value: Any, low: float, high: float, unit: str) -> float:  # noqa: ANN401 - JSON is anything
    """`value` as a number of a range. Raises `UserError` that names the place."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not low <= value <= high
        or not math.isfinite(value)
    ):
        raise UserError(f"{where}: {shown(value)} is out of place; wanted {low:g} to {high:g} {unit}")
    return float(value)


def number_of(where: str, entry: Any, key: str, high: float, unit: str) -> float:  # noqa: ANN401 - JSON is anything
    """``entry[key]`` as a number from 0 to `high`. Raises `UserError` that names the place."""
    return number(f"{where}.{key}", member(where, entry, key, (int, float)), 0, high, unit)


def count_of(where: str, entry: Any, key: str) -> int:  # noqa: ANN401 - JSON is anything
    """``entry[key]`` as a count. Raises `UserError` that names the place."""
    found = member(where, entry, key, int)
    if not 0 <= found <= MAX_COUNT:
        raise UserError(f"{where}.{key}: {shown(found)} is out of place; wanted a count")
    return int(found)


def count_if(where: str, entry: Any, key: str) -> int | None:  # noqa: ANN401 - JSON is anything
    """As `count_of`; None where there is no `key`."""
    return count_of(where, entry, key) if isinstance(entry, dict) and key in entry else None


def text_of(where: str, entry: Any, key: str) -> str:  # noqa: ANN401 - JSON is anything
    """``entry[key]`` as a line of at most 200 characters. Raises `UserError` that names the place."""
    found = str(member(where, entry, key, str))
    if len(found) > 200 or not found.isprintable():
        raise UserError(f"{where}.{key}: {shown(found)} is not what is wanted there")
    return found
