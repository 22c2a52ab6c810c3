"""Streaming reader of large tables of plain numbers; all other tables are read as a whole by `columns`.

Rows of numbers are parsed natively. Other rows (words for a lost probe, quotes, blanks) are parsed by `columns`, so
that both readers accept and refuse the same tables.
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
from bentpipe.measurements.readers.cells import (
    Cells,
    cells_of,
    content_lines,
    is_aside,
    is_heading,
    separator_of,
    table_of,
)
from bentpipe.measurements.readers.checked import MAX_RTT_MS
from bentpipe.measurements.readers.column_names import meanings
from bentpipe.measurements.readers.column_times import (
    COUNTED,
    beyond,
    by_size,
    counted_from,
    era,
    expected_time,
    of_clock,
    since,
)
from bentpipe.measurements.readers.measurement import Measurement, ReadHints

#: The units of times, by their name in the native parser.
_UNITS = {1.0: "s", 1e-3: "ms", 1e-6: "us", 1e-9: "ns"}
#: Lines examined to determine the columns; chosen here: comments may precede them.
_HEAD_LINES = 200
_WHEN = {"time", "epoch", "instant"}


@dataclass(frozen=True)
class _Plan:
    """The columns of a table of plain numbers."""

    known: dict[int, tuple[str, float]]
    kinds: list[str]
    separator: str
    heading: bool
    instants: str | None
    absolute: bool
    first_time: str
    notes: list[str]


def measure(blocks: Iterable[bytes], where: str, hints: ReadHints) -> Measurement:
    """Read a table as `columns.measure`, from blocks of whole lines (the last may lack a newline).

    Raises:
        UserError: See there; or a table with other content than plain RTTs is too large to be held in memory.
    """
    cut: list[str] = []
    pieces = _ended(blocks, cut)
    head = next(pieces, b"")
    plan = _plan(head, where, hints)
    if plan is None:
        measurement = columns.measure(_joined(chain([head], pieces), where), where, hints)
        return replace(measurement, notes=(*measurement.notes, *cut))
    growing = Growing({name: np.int64 if name == "unix_ns" else np.float64 for name, _ in _named(plan)})
    first = 1
    for piece in chain([head], pieces):
        growing.append(_rows(piece, first, where, plan))
        first += piece.count(b"\n")
    whole = growing.columns()
    if not whole["unix_ns"].size:
        raise UserError("the table has no row", where=where)
    notes = [*plan.notes, *cut]
    times, clock = pl.Series("unix_ns", whole.pop("unix_ns")), True
    if plan.instants is None:
        times, clock = counted_from(times, hints, notes)
    else:
        notes.append(by_size(plan.instants))
    frame = times.to_frame().with_columns(pl.Series("rtt_ms", whole.pop("rtt_ms")).fill_nan(None))
    if "seq" in whole:
        frame = frame.with_columns(pl.Series("seq", whole.pop("seq").astype(np.int64)))
    del times
    probes, jumps = columns.probes_of(frame, hints, notes)
    return Measurement(
        {"probes": probes}, "utc" if clock else "relative", jumps, tuple(notes), COUNTED in "".join(notes)
    )


def _ended(blocks: Iterable[bytes], cut: list[str]) -> Iterator[bytes]:
    """Yield the blocks without a truncated last line, since part of a number looks like a number.

    A truncated line that is the only row is kept.
    """
    first, rows = 1, 0
    for given in blocks:
        piece = given
        if not piece.endswith(b"\n"):
            whole, end, _ = piece.rpartition(b"\n")
            before = rows + len(_content_lines(whole))
            if before > 1 or (before == 1 and not is_heading(whole or piece)):
                cut.append(cut_note(first + piece.count(b"\n")))
                piece = whole + end
        if piece:
            yield piece
        first += piece.count(b"\n")
        rows = rows if rows > 1 else rows + len(_content_lines(piece))


def _content_lines(text: bytes) -> list[bytes]:
    """Return the lines of a text without comments, at most `_HEAD_LINES`."""
    lines = text.split(b"\n", _HEAD_LINES)[:_HEAD_LINES]
    return [line for line in lines if not is_aside(line.decode("utf-8", "replace"))]


def _joined(pieces: Iterator[bytes], where: str) -> bytes:
    whole: list[bytes] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_BYTES:
            raise UserError(
                "is too large", where=where, expected=f"at most {MAX_BYTES} bytes of a table with words in it"
            )
        whole.append(piece)
    return b"".join(whole)


def _plan(head: bytes, where: str, hints: ReadHints) -> _Plan | None:
    """Derive the columns from the first lines; None: not a table of only times, RTTs and sequence numbers."""
    lines = _content_lines(head)
    try:
        table, heading, _ = table_of(b"\n".join(lines[:2]), where)
        known, notes = meanings(table, heading, where, hints)
    except UserError:  # `columns.measure` raises it again, with the right line
        return None
    by = {quantity: (place, unit) for place, (quantity, unit) in known.items()}
    if not set(by) <= {"time", "epoch", "instant", "rtt", "seq"} or "rtt" not in by or len(_WHEN & set(by)) > 1:
        return None
    instants, absolute = None, True
    kinds = ["passed"] * table.width
    if "instant" in by:
        place = by["instant"][0]
        instants = era(str(table[0, place]).strip(" \t\"'"))
        if instants is None:
            return None
        kinds[place] = instants
    else:
        quantity = "epoch" if "epoch" in by else "time"
        place, unit = by[quantity]
        kinds[place] = _UNITS[unit]
        try:
            begin = since(Cells(table, pl.Series([1] * table.height), where), place, unit)[0]
        except UserError:
            return None
        absolute = of_clock(quantity, begin)
    kinds[by["rtt"][0]] = "rtt"
    if "seq" in by:
        kinds[by["seq"][0]] = "number"
    separator = separator_of(lines[0].decode().strip("\r "))
    return _Plan(known, kinds, separator, heading is not None, instants, absolute, str(table[0, place]), notes)


def _rows(piece: bytes, first: int, where: str, plan: _Plan) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
    """Return the rows of a block: `unix_ns` as in the table, `rtt_ms` (NaN: lost), and `seq` if present."""
    if not piece.isascii():
        try:
            piece.decode()
        except UnicodeDecodeError as error:
            number = first + piece.count(b"\n", 0, error.start)
            raise UserError(f"is not UTF-8 text (byte 0x{piece[error.start]:02x})", where=f"{where}:{number}") from None
    line, parsed, (missed, left) = _native.table_rows(piece, first, plan.separator, plan.kinds)
    named = {name: values for (name, _), values in zip(_named(plan), parsed, strict=True)}
    milli = next(unit for quantity, unit in plan.known.values() if quantity == "rtt") * 1e3
    # A block with a number out of range is parsed again by `columns`, which raises the error.
    if (
        (named["rtt_ms"] > MAX_RTT_MS / milli).any()
        or (named.get("seq", np.zeros(1)) > columns.MOST_SEQ).any()
        or beyond(pl.Series(named["unix_ns"]), absolute=plan.absolute).any()
    ):
        missed, left, line = np.arange(first, first + len(lines_of(piece)), dtype=np.uint32), piece, line[:0]
        named = {name: values[:0] for name, values in named.items()}
    named["rtt_ms"] *= milli
    rows = pl.DataFrame({"line": missed, "text": lines_of(left)}) if missed.size else None
    rows = None if rows is None else content_lines(rows)
    if rows is not None and plan.heading and first == 1:
        rows = rows[1:]
    if rows is None or not rows.height:
        return named
    careful = _careful(rows, where, plan, milli)
    order = np.argsort(np.concatenate([line, rows["line"].to_numpy()]), kind="stable")
    return {name: np.concatenate([values, careful[name]])[order] for name, values in named.items()}


def _named(plan: _Plan) -> list[tuple[str, int]]:
    """Return the names in `_rows` and the indices of the known columns, left to right."""
    names = {**dict.fromkeys(_WHEN, "unix_ns"), "rtt": "rtt_ms", "seq": "seq"}
    return [(names[quantity], place) for place, (quantity, _) in sorted(plan.known.items())]


def _careful(
    rows: pl.DataFrame, where: str, plan: _Plan, milli: float
) -> dict[str, NDArray[np.int64] | NDArray[np.float64]]:
    cells = Cells(cells_of(rows, plan.separator, len(plan.kinds), where), rows["line"], where)
    places = dict(_named(plan))
    unit = next(scale for scale, name in _UNITS.items() if name == plan.kinds[places["unix_ns"]])
    times = since(cells, places["unix_ns"], unit)
    expected = expected_time(unit, plan.first_time)
    cells.refuse(beyond(times, absolute=plan.absolute), cells.text(places["unix_ns"]), expected)
    rows_read = {
        "unix_ns": times.to_numpy(),
        "rtt_ms": (cells.number(places["rtt_ms"], "an RTT", 0, MAX_RTT_MS / milli, lost=True) * milli)
        .fill_null(np.nan)
        .to_numpy(),
    }
    if "seq" in places:
        rows_read["seq"] = cells.number(places["seq"], "a number", 0, columns.MOST_SEQ).to_numpy()
    return rows_read
