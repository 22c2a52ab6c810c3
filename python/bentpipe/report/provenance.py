"""How a path was made, for readers: the recipe of a Profile's provenance as lists and tables, whatever is in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.times import format_utc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

INCLUDES = {
    "mac_jitter": "waiting for the radio link's transmission grants",
    "cross_traffic": "queueing behind other users' traffic",
    "queueing": "queueing on the measured path",
    "congestion_control": "what the measuring flow's own congestion control did",
}
"""What a Profile's delays may already hold (`docs/reference/profile-format.md`), in plain words."""

WORDS = {
    "alt": "altitude",
    "gso": "GSO",
    "id": "number",
    "lat": "latitude",
    "lon": "longitude",
    "norad": "NORAD",
    "params": "parameters",
    "pop": "PoP",
    "sha256": "SHA-256",
    "snr": "SNR",
}
"""Parts of keys that are not words."""

PHRASES = {"gateway_pop": "gateway to PoP", "pop_server": "PoP to server", "min_elevation": "lowest elevation"}
"""Keys whose words alone would mislead."""

FIRST = ("start_ns", "end_ns", "name")
"""Columns that a reader looks for first."""

MOST_NUMBERS = 6
"""A longer list of numbers is shown by its ends; in the cell of a table so is any list."""

UNITS = {
    "_per_s": "per s",
    "_mbps": "Mbit/s",
    "_bps": "bit/s",
    "_bytes": "bytes",
    "_deg": "°",
    "_km": "km",
    "_ms": "ms",
    "_db": "dB",
    "_m": "m",
    "_s": "s",
}
"""Endings of keys that are units."""

MOST_ROWS = 60
"""Rows of a table that are shown: 15 minutes of slots. The rest stands in the Profile's file."""


@dataclass(frozen=True)
class Block:
    """One part of a recipe: names with values, or a table (`heads` and `rows`) and how many rows of it are left out."""

    title: str
    facts: list[tuple[str, str]]
    heads: list[str]
    rows: list[list[str]]
    left_out: int = 0


def blocks(recipe: Mapping[str, Any]) -> list[Block]:
    """A recipe, part by part: plain values as facts, lists of alike records as tables, the rest as parts of its own."""
    return list(_blocks("", recipe))


def includes(found: object) -> str:
    """What a Profile's delays hold beside propagation."""
    if not isinstance(found, list) or not found:
        return "propagation alone"
    return ", ".join(["propagation", *(INCLUDES.get(str(effect), words(str(effect))) for effect in found)])


def words(key: str) -> str:
    """A key without its underscores and unit: ``norad_id`` is ``NORAD number``."""
    name = key.removesuffix("_unix_ns").removesuffix("_ns")
    unit = next((unit for unit in UNITS if name.endswith(unit)), "") if name == key else ""
    bare = name.removesuffix(unit)
    return PHRASES.get(bare) or " ".join(WORDS.get(part, part) for part in bare.split("_"))


def _blocks(title: str, node: Mapping[str, Any]) -> Iterator[Block]:
    facts, parts = [], []
    for key, value in node.items():
        below = f"{title}: {words(key)}" if title else words(key)
        if (rows := _records(value)) is not None:
            parts.append(_table(below, rows))
        elif isinstance(value, dict) and value:
            parts.extend(_blocks(below, value))
        else:
            facts.append((words(key), _with_unit(key, value)))
    if facts:
        yield Block(title, facts, [], [])
    yield from parts


def _records(value: object) -> list[dict[str, Any]] | None:
    """Rows of a table: a list of records, or records by name that all have the same fields."""
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        return value if any(any(_flat(row)) for row in value) else None
    if isinstance(value, dict) and len(value) > 1 and all(isinstance(row, dict) and row for row in value.values()):
        rows = list(value.values())
        if all(row.keys() == rows[0].keys() for row in rows) and any(any(_flat(row)) for row in rows):
            return [{"name": name, **row} for name, row in value.items()]
    return None


def _table(title: str, records: Sequence[Mapping[str, Any]]) -> Block:
    flat = [dict(_flat(record)) for record in records]
    there = dict.fromkeys(key for row in flat for key in row)
    keys = sorted(there, key=lambda key: FIRST.index(key[-1]) if key[-1] in FIRST else len(FIRST))
    last = [key[-1] for key in keys]
    heads = [_head(key if last.count(key[-1]) > 1 else key[-1:]) for key in keys]
    rows = [[_plain(key[-1], row.get(key), 1) for key in keys] for row in flat[:MOST_ROWS]]
    return Block(title, [], heads, rows, max(len(flat) - MOST_ROWS, 0))


def _head(key: tuple[str, ...]) -> str:
    unit = _unit(key[-1])
    return ", ".join(map(words, key)) + (f" [{unit}]" if unit else "")


def _flat(record: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Values with the keys that lead to them, outermost first."""
    for key, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, (*above, key))
        else:
            yield (*above, key), value


def _unit(key: str) -> str:
    return next((name for ending, name in UNITS.items() if key.endswith(ending)), "")


def _with_unit(key: str, value: object) -> str:
    unit, shown = _unit(key), _plain(key, value)
    if not unit or isinstance(value, bool) or not isinstance(value, int | float | list):
        return shown
    return shown + unit if unit == "°" else f"{shown} {unit}"


def _plain(key: str, value: object, most: int = MOST_NUMBERS) -> str:
    """A value in few characters: nanoseconds as a time or as ms and s, a long list of numbers by its ends."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(key, value)
    if isinstance(value, list):
        if len(value) > most and all(isinstance(each, int | float) for each in value):
            return f"{_plain(key, value[0])} → {_plain(key, value[-1])}"
        return ", ".join(_plain(key, each) for each in value) or "none"
    return str(value)


def _number(key: str, value: float) -> str:
    if key.endswith("_unix_ns") and isinstance(value, int) and 0 <= value < 2**63:
        return format_utc(value)
    if key.endswith("_ns"):
        return f"{value / 1e6:.4g} ms" if abs(value) < 1e9 else f"{value / 1e9:.6g} s"
    return str(value) if isinstance(value, int) else f"{value:.4g}"
