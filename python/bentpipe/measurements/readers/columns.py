"""Tables separated by commas, tabs or blanks, with units in the heading or from the user.

``rtt_ms`` is an RTT in milliseconds, ``unix_ns`` a time in nanoseconds, ``download_mbps`` a rate in Mbit/s. A
table without a heading is read only if its columns are ``time rtt_ms`` or ``time seq rtt_ms`` and its times are
instants of 2000 to 2100, whose magnitude gives the unit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from bentpipe.analysis.tables import KEYS
from bentpipe.measurements.readers.cells import Cells, has_names, is_aside, separator_of, split_line, table_of
from bentpipe.measurements.readers.checked import MAX_BPS, MAX_RTT_MS
from bentpipe.measurements.readers.column_names import NO_UNIT, WAYS, Meanings, meaning_of, meanings, normal_name
from bentpipe.measurements.readers.column_times import (
    COUNTED,
    beyond,
    counted_from,
    era,
    expected_time,
    instants_of,
    of_clock,
    parse_instants,
    since,
)
from bentpipe.measurements.readers.measurement import Measurement, ReadHints
from bentpipe.measurements.readers.probes import Answers, series
from bentpipe.measurements.readers.restarts import BACK_S, WRAP
from bentpipe.measurements.readers.timestamps import timestamps_of

_YES, _NO = ("1", "1.0", "true", "t", "yes", "y"), ("0", "0.0", "false", "f", "no", "n")
#: The note on reply times.
OF_REPLIES = "timestamps are reply times, as requested: the RTTs are subtracted"
#: Largest sequence number: a double holds it exactly.
MOST_SEQ = 2**53


def is_table(head: bytes) -> bool:
    """Return whether a text with this beginning may be a table: a heading with a time or a unit, or rows of numbers."""
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:  # otherwise truncated within a character
            return False
        text = head[: error.start].decode(errors="ignore")
    lines = [line for line in text.splitlines() if not is_aside(line)]
    if len(lines) < 2:
        return False
    fields = split_line(lines[0], separator_of(lines[0]))
    if has_names(fields):
        return len(fields) > 1 and any(
            meaning_of(normal_name(field)) or NO_UNIT.match(normal_name(field)) for field in fields
        )
    return len(fields) in (2, 3) and era(fields[0]) is not None


def measure(data: bytes, where: str, hints: ReadHints) -> Measurement:
    """Read RTTs as `probes` and rates as `samples`, one test per row.

    An RTT that is -1, empty or a word such as `timeout` is a lost probe. With sequence numbers (`seq`), missing numbers
    are lost probes too.

    Raises:
        UserError: A column without a unit, a cell that is not a number, or neither an RTT nor a rate; the line is
            named.
    """
    table, heading, lines = table_of(data, where)
    known, notes = meanings(table, heading, where, hints)
    cells = Cells(table, lines, where)
    times_ns, clock = _times(cells, known, hints, notes)
    tables: dict[str, pl.DataFrame] = {}
    jumps = 0
    if any(quantity == "rtt" for quantity, _ in known.values()):
        tables["probes"], jumps = _probes(cells, known, times_ns, hints, notes)
    if any(quantity.startswith("rate") for quantity, _ in known.values()):
        tables["samples"] = _samples(cells, known, times_ns)
    counted = any(note.startswith(COUNTED) for note in notes)
    return Measurement(tables, "utc" if clock else "relative", jumps, tuple(notes), counted)


def _times(cells: Cells, known: Meanings, hints: ReadHints, notes: list[str]) -> tuple[pl.Series, bool]:
    """Return the time of each row [ns since 1970], and whether it is a wall clock's."""
    place, (quantity, unit_s) = next((p, m) for p, m in known.items() if m[0] in ("time", "epoch", "instant"))
    if quantity == "instant":
        return instants_of(cells, place, notes), True
    times = since(cells, place, unit_s)
    text = cells.text(place)
    cells.refuse(beyond(times, absolute=of_clock(quantity, times[0])), text, expected_time(unit_s, str(text[0])))
    return counted_from(times, hints, notes)


def _probes(
    cells: Cells, known: Meanings, times_ns: pl.Series, hints: ReadHints, notes: list[str]
) -> tuple[pl.DataFrame, int]:
    by = {quantity: (place, scale) for place, (quantity, scale) in known.items()}
    place, scale = by["rtt"]
    milli = scale * 1e3
    frame = pl.DataFrame(
        {"unix_ns": times_ns, "rtt_ms": cells.number(place, "an RTT", 0, MAX_RTT_MS / milli, lost=True) * milli}
    )
    if "lost" in by:
        words = cells.text(by["lost"][0]).str.to_lowercase()
        gone = words.is_in(_YES)
        cells.refuse(~gone & ~words.is_in(_NO), words, "expected 1 or 0 (true, false, yes, no) in column lost")
        frame = frame.with_columns(frame["rtt_ms"].set(gone, None))
    for name in ("up", "down"):
        if name in by:
            where, unit = by[name]
            most = MAX_RTT_MS / (unit * 1e3)
            values = cells.number(where, "a delay", -most, most, lost=True, gone=frame["rtt_ms"].is_null())
            frame = frame.with_columns((values * unit * 1e3).alias(f"{name}_ms"))
    for name in ("site", "target"):
        if name in by:
            frame = frame.with_columns(cells.text(by[name][0]).str.slice(0, 200).alias(name))
    if "seq" in by:
        seq = cells.number(by["seq"][0], "a number", 0, MOST_SEQ)
        frame = frame.with_columns(seq.cast(pl.Int64).alias("seq"))
    return probes_of(frame, hints, notes)


def probes_of(frame: pl.DataFrame, hints: ReadHints, notes: list[str]) -> tuple[pl.DataFrame, int]:
    """Return the probes of rows, and the number of clock jumps.

    Args:
        frame: `unix_ns`, `rtt_ms` (null: lost); if the table has them `seq`, `site`, `target`, `kind` (else icmp),
            `up_ms`, `down_ms`.
        hints: The user's statements about the file.
        notes: Receives notes on assumptions.
    """
    keys = [name for name in KEYS if name in frame.columns]
    every = frame.partition_by(keys, maintain_order=True) if keys else [frame]
    each = ((part["unix_ns"].to_numpy(), part["rtt_ms"].fill_null(np.nan).to_numpy()) for part in every)
    times = timestamps_of(each, hints.times, notes)
    notes += [OF_REPLIES] if hints.times == "reply" else []
    hints = replace(hints, times=times)
    del every
    if "kind" not in keys:
        frame = frame.with_columns(pl.lit("icmp").alias("kind"))
    if "seq" not in frame.columns:
        if not frame["rtt_ms"].null_count():
            notes.append("no row is a lost probe: lost probes without a row count as gaps only")
        steps = pl.col("unix_ns").diff()
        back = frame.select((steps.over(keys) if keys else steps) < -BACK_S * 1e9).sum().item()
        return with_send_times(frame, hints).with_columns(
            pl.lit(value=False).alias("duplicate"), pl.lit(value=False).alias("out_of_order")
        ), int(back)
    frame = with_send_times(frame, hints)
    parts, jumps = [], 0
    for part in frame.partition_by(keys, maintain_order=True) if keys else [frame]:
        if part["rtt_ms"].null_count() == part.height:
            parts.append(part.with_columns(duplicate=pl.lit(value=False), out_of_order=pl.lit(value=False)))
            continue
        answers = Answers(
            part["seq"].to_numpy(),
            part["unix_ns"].to_numpy(),
            part["rtt_ms"].fill_null(np.nan).to_numpy(),
            exact=hints.times == "reply",
            silent_times=True,
        )
        one = series(answers, hints, "the table")
        jumps += one.clock_jumps
        notes += [note for note in one.notes if note not in notes]
        extra = [name for name in ("up_ms", "down_ms") if name in part.columns]
        first = part.select(name for name in KEYS if name in part.columns).head(1)
        numbered = one.table.with_columns(
            pl.lit(value, pl.String).alias(name) for name, value in first.row(0, named=True).items()
        )
        if extra:
            # Numbers may restart, so only number and time together identify a probe.
            short = (pl.col("seq") % WRAP).alias("short")
            delays = part.select("unix_ns", short, *extra).unique(["unix_ns", "short"], keep="first")
            numbered = (
                numbered.with_columns(short)
                .join(delays, on=["unix_ns", "short"], how="left", maintain_order="left")
                .drop("short")
            )
        parts.append(numbered)
    return pl.concat(parts, how="diagonal_relaxed"), jumps


def with_send_times(frame: pl.DataFrame, hints: ReadHints) -> pl.DataFrame:
    """Return rows (`unix_ns`, `rtt_ms`) with send times.

    The RTT is subtracted from a reply time. A lost probe has no reply, and its time stays.
    """
    if hints.times != "reply":
        return frame
    trips_ns = (pl.col("rtt_ms").fill_null(0.0) * 1e6).round().cast(pl.Int64)
    times_ns = frame.select(pl.col("unix_ns") - trips_ns).to_series()
    # Relative times may begin with the first reply, which leaves its probe before 0.
    before_ns = min(0, int(times_ns.min() or 0))  # type: ignore[arg-type]
    return frame.with_columns((times_ns - before_ns).alias("unix_ns"))


def _samples(cells: Cells, known: Meanings, times_ns: pl.Series) -> pl.DataFrame:
    by = {quantity: (place, scale) for place, (quantity, scale) in known.items()}
    about = {"unix_ns": times_ns, "test": pl.Series(range(times_ns.len()), dtype=pl.Int64)}
    for name in ("target", "controller"):
        if name in by:
            about[name] = cells.text(by[name][0]).str.slice(0, 200)
    duration = pl.repeat(None, times_ns.len(), dtype=pl.Float64, eager=True)
    if "end" in by:
        ends, _ = parse_instants(cells.text(by["end"][0]))
        duration = (ends - times_ns) / 1e9
        duration = duration.set((duration <= 0).fill_null(value=False), None)
    parts = []
    for quantity, (place, scale) in by.items():
        if not quantity.startswith("rate"):
            continue
        rate = cells.number(place, "a rate", 0, MAX_BPS / scale, lost=True) * scale
        way = pl.repeat(
            quantity.removeprefix("rate_") if "_" in quantity else None, times_ns.len(), dtype=pl.String, eager=True
        )
        if "direction" in by and "_" not in quantity:
            given = cells.text(by["direction"][0]).str.to_lowercase()
            way = given.replace_strict(dict(WAYS), default=None, return_dtype=pl.String)
            cells.refuse(way.is_null(), given, "expected down or up")
        parts.append(
            pl.DataFrame({**about, "direction": way, "goodput_bps": rate, "duration_s": duration, "t_s": duration})
        )
    whole = pl.concat(parts).with_columns(pl.lit(0, pl.Int64).alias("flow"))
    return whole.sort("unix_ns", maintain_order=True)
