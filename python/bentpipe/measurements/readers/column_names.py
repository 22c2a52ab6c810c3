"""Quantities and units of columns, from their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import polars as pl

from bentpipe.errors import UserError, shown
from bentpipe.measurements.readers.column_times import SECONDS, era
from bentpipe.measurements.readers.measurement import ReadHints

_BPS = MappingProxyType(
    {f"{prefix}bps": size for prefix, size in {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "ki": 2**10, "mi": 2**20}.items()}
    | {
        f"{prefix}bytes_per_s": 8.0 * size
        for prefix, size in {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "ki": 2**10, "mi": 2**20, "gi": 2**30}.items()
    }
)
WAYS = MappingProxyType(
    {"down": "down", "dl": "down", "download": "down", "downlink": "down"}
    | {"up": "up", "ul": "up", "upload": "up", "uplink": "up"}
)
_WAY = "|".join(sorted(WAYS, key=len, reverse=True))
_TIME = re.compile(r"(?:(unix|epoch)(?:_?time)?|time|timestamp|t|sent|start)_(s|ms|us|ns)$")
_INSTANT = re.compile(r"(?:time|timestamp|datetime|date|sent|when)(?:_(?:start|begin|utc))?$")
_END = re.compile(r"(?:time|timestamp|datetime)_(?:end|stop)$")
_RTT = re.compile(r"(?:icmp_)?(?:rtt|latency|ping|round_trip|round_trip_time)_(s|ms|us|ns)$")
#: `download_s` does not match: it is the duration of a download.
_ONE_WAY = re.compile(
    rf"(?:({_WAY})(?:_delay|_latency|_owd)|(up|down|ul|dl|uplink|downlink)|(?:owd|delay|latency)_({_WAY}))_(s|ms|us|ns)$"
)
_RATE = re.compile(
    rf"(?:({_WAY})_?)?(throughput|goodput|rate|speed|bandwidth|capacity)?_?((?:k|m|g|ki|mi|gi)?(?:bps|bytes_per_s))$"
)
#: A capital B means bytes, a small one bits; all capitals are ambiguous. (A terminal's `downlinkThroughputBps` is in
#: bits: its capital begins a word.)
_BYTES = re.compile(
    r"([kKmMgG]i?|(?<![a-z]))(?:B(?:ps|/s(?:ec)?|_per_s(?:ec)?)|[bB]ytes?(?:ps|/s(?:ec)?|_per_s(?:ec)?))(?![A-Za-z])"
)
_BITS = re.compile(r"([kKmMgG]?i?)(?:b(?:/s(?:ec)?|_per_s(?:ec)?)|[bB]its?(?:ps|/s(?:ec)?|_per_s(?:ec)?))(?![A-Za-z])")
_NEITHER = re.compile(r"(?<![A-Za-z])[KMG]?BPS(?![A-Za-z])")
_NAMES = MappingProxyType(
    {"seq": "seq", "icmp_seq": "seq", "sequence": "seq", "seqno": "seq", "site": "site", "lost": "lost"}
    | dict.fromkeys(("target", "host", "server", "dst", "destination", "dst_addr"), "target")
    | {"direction": "direction", "controller": "controller", "cc": "controller"}
)
#: Names of a quantity without a unit; the unit of such a column is not guessed.
NO_UNIT = re.compile(r"(?:rtt|latency|ping|delay|owd|throughput|goodput|download|upload|rate|speed)(?:_|$)")
_RATES = re.compile(r"throughput|goodput|download|upload|rate|speed")
Meanings = Mapping[int, tuple[str, float]]


def meanings(
    table: pl.DataFrame, heading: list[str] | None, where: str, hints: ReadHints
) -> tuple[dict[int, tuple[str, float]], list[str]]:
    """Return the quantity and the unit [s or bit/s] of each known column, by index; and notes.

    Raises:
        UserError: See `measure`, as far as the heading or the first row shows it.
    """
    names = _declared(heading, table.width, where, hints, table)
    notes: list[str] = []
    known = {place: meaning for place, name in enumerate(names) if name and (meaning := meaning_of(name))}
    _check(known, names, heading, where)
    if passed := [name or str(place + 1) for place, name in enumerate(names) if place not in known]:
        notes.append(f"columns ignored: {', '.join(name[:40] for name in passed[:8])}{', …' if passed[8:] else ''}")
    return known, notes


def _declared(heading: list[str] | None, width: int, where: str, hints: ReadHints, table: pl.DataFrame) -> list[str]:
    """Return a name with a unit for each column; empty: ignored."""
    if hints.units is not None:
        if len(hints.units) != width:
            raise UserError(
                f"`units` names {len(hints.units)} columns, the table has {width}; - skips one", where=where
            )
        names = ["" if name == "-" else normal_name(name) for name in hints.units]
        for given, name in zip(hints.units, names, strict=True):
            if name and meaning_of(name) is None:
                raise UserError(
                    f"{shown(given)} is no column with a unit",
                    where="units",
                    expected="for example unix_s, rtt_ms, down_mbps",
                )
        return names
    if heading is not None:
        return [normal_name(name) for name in heading]
    unit = era(str(table[0, 0]))
    if width not in (2, 3) or unit is None:
        raise UserError("has no heading", where=where, expected="names of its columns (`units`), as unix_s,rtt_ms")
    return [f"unix_{unit}", *(["seq"] if width == 3 else []), "rtt_ms"]


def _check(known: Meanings, names: Sequence[str], heading: list[str] | None, where: str) -> None:
    kinds = ["time" if quantity == "epoch" else quantity for quantity, _ in known.values()]
    if not any(quantity == "rtt" or quantity.startswith("rate") for quantity in kinds):
        bare = next((name for name in names if NO_UNIT.match(name)), None)
        if bare is not None and heading is not None:
            raise UserError(
                f"column {shown(heading[list(names).index(bare)])} has no unit",
                where=where,
                hint=f"`units`, as {_with_unit(bare)}",
            )
        if {"y", "x"} <= set(names):
            raise UserError(
                "holds pixels of a terminal's obstruction map, which no Run contains",
                where=where,
                hint="`bentpipe serving`",
            )
        raise UserError(
            "no column is an RTT or a rate with its unit", where=where, expected="for example rtt_ms, down_mbps"
        )
    twice = [quantity for quantity in dict.fromkeys(kinds) if kinds.count(quantity) > 1]
    if twice:
        raise UserError(
            f"two columns are {twice[0].replace('_', ' ')}; choose one with `units` (- skips one)", where=where
        )
    if "time" not in kinds and "instant" not in kinds:
        raise UserError("no column has times", where=where, expected="for example unix_s, timestamp, or t_s")


def _with_unit(bare: str) -> str:
    """Return an example of the name with a unit."""
    rate = bool(_RATES.match(bare))
    name = f"{bare[:40]}_{'mbps' if rate else 'ms'}"
    return name if meaning_of(name) else ("down_mbps" if rate else "rtt_ms")


def normal_name(name: str) -> str:
    """Return `name` in snake case: ``popPingLatencyMs`` becomes ``pop_ping_latency_ms``."""
    text = name.strip().strip("\"'@").rpartition(".")[2]
    text = _NEITHER.sub("", text)
    text = _BYTES.sub(lambda match: f"_{match[1].lower()}bytes_per_s", text)
    text = _BITS.sub(lambda match: f"_{match[1].lower()}bps", text)
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    text = re.sub(r"(?i)[µμ]s", "us", text)
    text = re.sub(r"(?i)(?<![a-z])(k|m|g)bit[/_]?s\b", r"\1bps", text)
    return re.sub(r"[^0-9a-z]+", "_", text.lower()).strip("_")


def meaning_of(name: str) -> tuple[str, float] | None:  # noqa: PLR0911 - a list of what there may be
    """Return the quantity of a column and its unit [s or bit/s]; None: unknown."""
    if match := _TIME.match(name):
        return ("epoch" if match[1] else "time"), SECONDS[match[2]]
    if _INSTANT.match(name) or name == "datetimestamp_utc":
        return "instant", 1.0
    if _END.match(name):
        return "end", 1.0
    if match := _RTT.match(name):
        return "rtt", SECONDS[match[1]]
    if match := _ONE_WAY.match(name):
        return WAYS[match[1] or match[2] or match[3]], SECONDS[match[4]]
    if name in ("bps", "kbps", "mbps", "gbps"):
        return "rate", _BPS[name]
    if (match := _RATE.match(name)) and (match[1] or match[2]):
        return ("rate" if match[1] is None else f"rate_{WAYS[match[1]]}"), _BPS[match[3]]
    return (_NAMES[name], 1.0) if name in _NAMES else None
