"""Tables that may be longer than memory likes: of plain numbers, piece by piece; all others as a whole.

A row of numbers is read natively; each other row (words for a lost probe, quotes, blanks) as `columns` reads all, so
that both find the same and refuse the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bentpipe import _native
from bentpipe.errors import UserError
from bentpipe.files import MAX_BYTES
from bentpipe.readers import columns
from bentpipe.readers.blocks import Growing, lines_of
from bentpipe.readers.checked import MAX_RTT_MS
from bentpipe.readers.measurement import Measurement, Said

#: The units of times, as the native half calls them.
_UNITS = {1.0: "s", 1e-3: "ms", 1e-6: "us", 1e-9: "ns"}
#: Lines that are looked at to know what the columns are; chosen here: comments come before them.
_HEAD_LINES = 200


@dataclass(frozen=True)
class _Plan:
    """What the columns of a table of plain numbers are."""

    known: dict[int, tuple[str, float]]
    kinds: list[str]
    separator: str
    heading: bool
    instants: str | None
    notes: list[str]


def measure(blocks: Iterable[bytes], where: str, said: Said) -> Measurement:
    """As `columns.measure`, of a text that comes in pieces of whole lines (the last may lack its end).

    Raises:
        UserError: See there; or a table that is not of plain round trips is too large to be held as a whole.
    """
    pieces = iter(blocks)
    head = next(pieces, b"")
    plan = _plan(head, where, said)
    if plan is None:
        return columns.measure(_joined(chain([head], pieces), where), where, said)
    growing = Growing({name: np.int64 if name == "unix_ns" else np.float64 for name, _ in _named(plan)})
    first = 1
    for piece in chain([head], pieces):
        growing.append(_rows(piece, first, where, plan))
        first += piece.count(b"\n")
    whole = growing.columns()
    if not whole["unix_ns"].size:
        raise UserError(f"{where}: the table has no row")
    notes = list(plan.notes)
    times, clock = pl.Series("unix_ns", whole.pop("unix_ns")), True
    if plan.instants is None:
        times, clock = columns.counted_from(times, said, notes)
    else:
        notes.append(columns.by_size(plan.instants))
    frame = times.to_frame().with_columns(pl.Series("rtt_ms", whole.pop("rtt_ms")).fill_nan(None))
    if "seq" in whole:
        frame = frame.with_columns(pl.Series("seq", whole.pop("seq").astype(np.int64)))
    del times
    probes, jumps = columns.probes_of(frame, said, notes)
    return Measurement({"probes": probes}, "utc" if clock else "relative", jumps, tuple(notes))


def _joined(pieces: Iterator[bytes], where: str) -> bytes:
    found: list[bytes] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_BYTES:
            raise UserError(f"{where}: is too large; wanted at most {MAX_BYTES} bytes of a table with words in it")
        found.append(piece)
    return b"".join(found)


def _plan(head: bytes, where: str, said: Said) -> _Plan | None:
    """What the first lines tell; None: not a table of times, round trips and numbers only, or none at all."""
    lines = head.removeprefix(columns.BOM).split(b"\n", _HEAD_LINES)[:_HEAD_LINES]
    worded = [line for line in lines if line.strip(b"\r ") and not line.strip(b"\r ").startswith(b"#")]
    try:
        table, heading, _ = columns.table_of(b"\n".join(worded[:2]), where)
        known, notes = columns.meanings(table, heading, where, said)
    except UserError:  # who reads it as a whole says it with the right line
        return None
    by = {what: (place, unit) for place, (what, unit) in known.items()}
    if not set(by) <= {"time", "instant", "rtt", "seq"} or "rtt" not in by or {"time", "instant"} <= set(by):
        return None
    instants = None
    kinds = ["passed"] * table.width
    if "instant" in by:
        place = by["instant"][0]
        instants = columns.era(str(table[0, place]).strip(" \t\"'"))
        if instants is None:
            return None
        kinds[place] = instants
    else:
        place, unit = by["time"]
        kinds[place] = _UNITS[unit]
    kinds[by["rtt"][0]] = "rtt"
    if "seq" in by:
        kinds[by["seq"][0]] = "number"
    separator = columns.separator_of(worded[0].decode().strip("\r "))
    return _Plan(known, kinds, separator, heading is not None, instants, notes)


def _rows(piece: bytes, first: int, where: str, plan: _Plan) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
    """The rows of a piece: `unix_ns` as the table counts them, `rtt_ms` (NaN: lost), perhaps `seq`."""
    if not piece.isascii():
        try:
            piece.decode()
        except UnicodeDecodeError as error:
            number = first + piece.count(b"\n", 0, error.start)
            raise UserError(f"{where}:{number}: is not UTF-8 text (byte 0x{piece[error.start]:02x})") from None
    if first == 1:
        piece = piece.removeprefix(columns.BOM)
    line, found, (missed, left) = _native.table_rows(piece, first, plan.separator, plan.kinds)
    named = {name: values for (name, _), values in zip(_named(plan), found, strict=True)}
    milli = next(unit for what, unit in plan.known.values() if what == "rtt") * 1e3
    # A number beyond its bounds is refused by who refuses all.
    if (named["rtt_ms"] > MAX_RTT_MS / milli).any() or (named.get("seq", np.zeros(1)) > columns.MOST_SEQ).any():
        missed, left, line = np.arange(first, first + len(lines_of(piece)), dtype=np.uint32), piece, line[:0]
        named = {name: values[:0] for name, values in named.items()}
    named["rtt_ms"] *= milli
    rows = pl.DataFrame({"line": missed, "text": lines_of(left)}) if missed.size else None
    rows = None if rows is None else columns.worded(rows)
    if rows is not None and plan.heading and first == 1:
        rows = rows[1:]
    if rows is None or not rows.height:
        return named
    careful = _careful(rows, where, plan, milli)
    order = np.argsort(np.concatenate([line, rows["line"].to_numpy()]), kind="stable")
    return {name: np.concatenate([values, careful[name]])[order] for name, values in named.items()}


def _named(plan: _Plan) -> list[tuple[str, int]]:
    """The columns that are read, left to right, as `_rows` names them."""
    names = {"time": "unix_ns", "instant": "unix_ns", "rtt": "rtt_ms", "seq": "seq"}
    return [(names[what], place) for place, (what, _) in sorted(plan.known.items())]


def _careful(
    rows: pl.DataFrame, where: str, plan: _Plan, milli: float
) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
    cells = columns.Cells(columns.cells_of(rows, plan.separator, len(plan.kinds), where), rows["line"], where)
    places = dict(_named(plan))
    unit = next(scale for scale, name in _UNITS.items() if name == plan.kinds[places["unix_ns"]])
    found = {
        "unix_ns": columns.since(cells, places["unix_ns"], unit).to_numpy(),
        "rtt_ms": (cells.number(places["rtt_ms"], "a round trip", 0, MAX_RTT_MS / milli, lost=True) * milli)
        .fill_null(np.nan)
        .to_numpy(),
    }
    if "seq" in places:
        found["seq"] = cells.number(places["seq"], "a number", 0, columns.MOST_SEQ).to_numpy()
    return found
