"""The recipe of a Profile's provenance as lists and tables for readers, independent of its keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.times import format_utc

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

INCLUDES = {
    "mac_jitter": "waiting for the radio link's transmission grants",
    "cross_traffic": "queueing behind cross traffic",
    "queueing": "queueing on the measured path",
    "congestion_control": "effects of the measuring flow's own congestion control",
}
"""Effects that a Profile's delays may include (`docs/reference/profile-format.md`), in plain words."""

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
"""Abbreviations in keys, and their words."""

PHRASES = {"gateway_pop": "gateway to PoP", "pop_server": "PoP to server", "min_elevation": "lowest elevation"}
"""Keys with a phrase of their own."""

FIRST = ("start_ns", "end_ns", "name")
"""Leftmost columns of a table."""

MOST_NUMBERS = 6
"""A longer list of numbers is shown by its first and last; in a table's cell every list is."""

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
"""Suffixes of keys that are units."""

MOST_ROWS = 60
"""Largest number of rows shown of a table: 15 minutes of slots. The Profile's file has the rest."""


@dataclass(frozen=True)
class Block:
    """One part of a recipe: names with values, or a table (`heads`, `rows`) and its number of omitted rows."""

    title: str
    facts: list[tuple[str, str]]
    heads: list[str]
    rows: list[list[str]]
    left_out: int = 0


def blocks(recipe: Mapping[str, Any]) -> list[Block]:
    """Split a recipe into blocks: plain values as facts, lists of records as tables, nested mappings as own blocks."""
    return list(_blocks("", recipe))


def includes(effects: object) -> str:
    """List the effects that a Profile's delays include."""
    if not isinstance(effects, list) or not effects:
        return "propagation alone"
    return ", ".join(["propagation", *(INCLUDES.get(str(effect), words(str(effect))) for effect in effects)])


def words(key: str) -> str:
    """Return a key's words without underscores and unit: ``norad_id`` is ``NORAD number``."""
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
    """Return the rows of a table: a list of records, or named records with equal fields; None: no table."""
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        return value if any(any(_flat(row)) for row in value) else None
    if isinstance(value, dict) and len(value) > 1 and all(isinstance(row, dict) and row for row in value.values()):
        rows = list(value.values())
        if all(row.keys() == rows[0].keys() for row in rows) and any(any(_flat(row)) for row in rows):
            return [{"name": name, **row} for name, row in value.items()]
    return None


def _table(title: str, records: Sequence[Mapping[str, Any]]) -> Block:
    flat = [dict(_flat(record)) for record in records]
    present = dict.fromkeys(key for row in flat for key in row)
    keys = sorted(present, key=lambda key: FIRST.index(key[-1]) if key[-1] in FIRST else len(FIRST))
    last = [key[-1] for key in keys]
    heads = [_head(key if last.count(key[-1]) > 1 else key[-1:]) for key in keys]
    rows = [[_plain(key[-1], row.get(key), 1) for key in keys] for row in flat[:MOST_ROWS]]
    return Block(title, [], heads, rows, max(len(flat) - MOST_ROWS, 0))


def _head(key: tuple[str, ...]) -> str:
    unit = _unit(key[-1])
    return ", ".join(map(words, key)) + (f" [{unit}]" if unit else "")


def _flat(record: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each value with the path of keys that leads to it, outermost first."""
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
    """Format a value briefly: nanoseconds as a time or as ms or s, a long list of numbers by its first and last."""
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
