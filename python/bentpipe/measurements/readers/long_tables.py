"""Tables that may be longer than memory likes: of plain numbers, piece by piece; all others as a whole.

A row of numbers is read natively; each other row (words for a lost probe, quotes, blanks) as `columns` reads all, so
that both find the same and refuse the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bentpipe import _native
from bentpipe.errors import UserError
from bentpipe.files import MAX_BYTES
from bentpipe.measurements.readers import columns
from bentpipe.measurements.readers.blocks import Growing, cut_note, lines_of
from bentpipe.measurements.readers.checked import MAX_RTT_MS
from bentpipe.measurements.readers.measurement import Measurement, Said

#: The units of times, as the native half calls them.
_UNITS = {1.0: "s", 1e-3: "ms", 1e-6: "us", 1e-9: "ns"}
#: Lines that are looked at to know what the columns are; chosen here: comments come before them.
_HEAD_LINES = 200
_WHEN = {"time", "epoch", "instant"}


@dataclass(frozen=True)
class _Plan:
    """What the columns of a table of plain numbers are."""

    known: dict[int, tuple[str, float]]
    kinds: list[str]
    separator: str
    heading: bool
    instants: str | None
    absolute: bool
    first_time: str
    notes: list[str]


def measure(blocks: Iterable[bytes], where: str, said: Said) -> Measurement:
    """As `columns.measure`, of a text that comes in pieces of whole lines (the last may lack its end).

    Raises:
        UserError: See there; or a table that is not of plain RTTs is too large to be held as a whole.
    """
    cut: list[str] = []
    pieces = _ended(blocks, cut)
    head = next(pieces, b"")
    plan = _plan(head, where, said)
    if plan is None:
        found = columns.measure(_joined(chain([head], pieces), where), where, said)
        return replace(found, notes=(*found.notes, *cut))
    growing = Growing({name: np.int64 if name == "unix_ns" else np.float64 for name, _ in _named(plan)})
    first = 1
    for piece in chain([head], pieces):
        growing.append(_rows(piece, first, where, plan))
        first += piece.count(b"\n")
    whole = growing.columns()
    if not whole["unix_ns"].size:
        raise UserError(f"{where}: the table has no row")
    notes = [*plan.notes, *cut]
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
    return Measurement(
        {"probes": probes}, "utc" if clock else "relative", jumps, tuple(notes), columns.COUNTED in "".join(notes)
    )


def _ended(blocks: Iterable[bytes], cut: list[str]) -> Iterator[bytes]:
    """The pieces without a last line that nothing ends: what is left of a number is one, too. The only row is kept."""
    first, rows = 1, 0
    for given in blocks:
        piece = given
        if not piece.endswith(b"\n"):
            whole, end, _ = piece.rpartition(b"\n")
            before = rows + len(_worded(whole))
            if before > 1 or (before == 1 and not columns.is_heading(whole or piece)):
                cut.append(cut_note(first + piece.count(b"\n")))
                piece = whole + end
        if piece:
            yield piece
        first += piece.count(b"\n")
        rows = rows if rows > 1 else rows + len(_worded(piece))


def _worded(text: bytes) -> list[bytes]:
    """The lines of a text that are rows or its heading, `_HEAD_LINES` at most."""
    lines = text.split(b"\n", _HEAD_LINES)[:_HEAD_LINES]
    return [line for line in lines if not columns.is_aside(line.decode("utf-8", "replace"))]


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
    """What the first lines tell; None: not a table of times, RTTs and numbers only, or none at all."""
    worded = _worded(head)
    try:
        table, heading, _ = columns.table_of(b"\n".join(worded[:2]), where)
        known, notes = columns.meanings(table, heading, where, said)
    except UserError:  # who reads it as a whole says it with the right line
        return None
    by = {what: (place, unit) for place, (what, unit) in known.items()}
    if not set(by) <= {"time", "epoch", "instant", "rtt", "seq"} or "rtt" not in by or len(_WHEN & set(by)) > 1:
        return None
    instants, absolute = None, True
    kinds = ["passed"] * table.width
    if "instant" in by:
        place = by["instant"][0]
        instants = columns.era(str(table[0, place]).strip(" \t\"'"))
        if instants is None:
            return None
        kinds[place] = instants
    else:
        what = "epoch" if "epoch" in by else "time"
        place, unit = by[what]
        kinds[place] = _UNITS[unit]
        try:
            begin = columns.since(columns.Cells(table, pl.Series([1] * table.height), where), place, unit)[0]
        except UserError:
            return None
        absolute = columns.of_clock(what, begin)
    kinds[by["rtt"][0]] = "rtt"
    if "seq" in by:
        kinds[by["seq"][0]] = "number"
    separator = columns.separator_of(worded[0].decode().strip("\r "))
    return _Plan(known, kinds, separator, heading is not None, instants, absolute, str(table[0, place]), notes)


def _rows(piece: bytes, first: int, where: str, plan: _Plan) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
    """The rows of a piece: `unix_ns` as the table counts them, `rtt_ms` (NaN: lost), perhaps `seq`."""
    if not piece.isascii():
        try:
            piece.decode()
        except UnicodeDecodeError as error:
            number = first + piece.count(b"\n", 0, error.start)
            raise UserError(f"{where}:{number}: is not UTF-8 text (byte 0x{piece[error.start]:02x})") from None
    line, found, (missed, left) = _native.table_rows(piece, first, plan.separator, plan.kinds)
    named = {name: values for (name, _), values in zip(_named(plan), found, strict=True)}
    milli = next(unit for what, unit in plan.known.values() if what == "rtt") * 1e3
    # A number beyond its bounds is refused by who refuses all.
    if (
        (named["rtt_ms"] > MAX_RTT_MS / milli).any()
        or (named.get("seq", np.zeros(1)) > columns.MOST_SEQ).any()
        or columns.beyond(pl.Series(named["unix_ns"]), absolute=plan.absolute).any()
    ):
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
    names = {**dict.fromkeys(_WHEN, "unix_ns"), "rtt": "rtt_ms", "seq": "seq"}
    return [(names[what], place) for place, (what, _) in sorted(plan.known.items())]


def _careful(
    rows: pl.DataFrame, where: str, plan: _Plan, milli: float
) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
    cells = columns.Cells(columns.cells_of(rows, plan.separator, len(plan.kinds), where), rows["line"], where)
    places = dict(_named(plan))
    unit = next(scale for scale, name in _UNITS.items() if name == plan.kinds[places["unix_ns"]])
    times = columns.since(cells, places["unix_ns"], unit)
    wanted = columns.wanted_time(unit, plan.first_time)
    cells.refuse(columns.beyond(times, absolute=plan.absolute), cells.text(places["unix_ns"]), wanted)
    found = {
        "unix_ns": times.to_numpy(),
        "rtt_ms": (cells.number(places["rtt_ms"], "an RTT", 0, MAX_RTT_MS / milli, lost=True) * milli)
        .fill_null(np.nan)
        .to_numpy(),
    }
    if "seq" in places:
        found["seq"] = cells.number(places["seq"], "a number", 0, columns.MOST_SEQ).to_numpy()
    return found
