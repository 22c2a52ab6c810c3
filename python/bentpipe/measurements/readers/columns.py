"""Tables separated by commas, tabs or blanks, with units in the heading or from the user.

``rtt_ms`` is an RTT in milliseconds, ``unix_ns`` a time in nanoseconds, ``download_mbps`` a rate in Mbit/s. A
table without a heading is read only if its columns are ``time rtt_ms`` or ``time seq rtt_ms`` and its times are
instants of 2000 to 2100, whose magnitude gives the unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import polars as pl

from bentpipe.analysis.tables import KEYS
from bentpipe.errors import UserError, shown
from bentpipe.measurements.readers.blocks import lines_of
from bentpipe.measurements.readers.checked import MAX_BPS, MAX_RTT_MS
from bentpipe.measurements.readers.measurement import Measurement, ReadHints
from bentpipe.measurements.readers.probes import Answers, series
from bentpipe.measurements.readers.restarts import BACK_S, WRAP
from bentpipe.measurements.readers.timestamps import timestamps_of

_S = MappingProxyType({"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9})
_BPS = MappingProxyType(
    {f"{prefix}bps": size for prefix, size in {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "ki": 2**10, "mi": 2**20}.items()}
    | {
        f"{prefix}bytes_per_s": 8.0 * size
        for prefix, size in {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "ki": 2**10, "mi": 2**20, "gi": 2**30}.items()
    }
)
_WAYS = MappingProxyType(
    {"down": "down", "dl": "down", "download": "down", "downlink": "down"}
    | {"up": "up", "ul": "up", "upload": "up", "uplink": "up"}
)
_WAY = "|".join(sorted(_WAYS, key=len, reverse=True))
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
_NO_UNIT = re.compile(r"(?:rtt|latency|ping|delay|owd|throughput|goodput|download|upload|rate|speed)(?:_|$)")
_RATES = re.compile(r"throughput|goodput|download|upload|rate|speed")
_LOST = ("", "-1", "-1.0", "nan", "null", "none", "*", "lost", "timeout", "-")
_YES, _NO = ("1", "1.0", "true", "t", "yes", "y"), ("0", "0.0", "false", "f", "no", "n")
#: The unit of a time follows from its magnitude if it lies in these years [s]: 2000 to 2100.
_ERA_S = (946_684_800, 4_102_444_800)
#: Times at or above this [ns], in 1973, count from 1970; smaller ones from the start of the measurement.
_CLOCK_NS = 10**17
_SCALES = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: The note on relative times.
COUNTED = "times are relative to its start"
#: The note on instants without a time zone.
NO_ZONE = "its times have no zone: taken for UTC"
#: The note on reply times.
OF_REPLIES = "timestamps are reply times, as requested: the RTTs are subtracted"
_ASIDE = r"^(?:$|#|(?i:sep)=.$)"
#: Largest sequence number: a double holds it exactly.
MOST_SEQ = 2**53
#: Most columns; chosen here.
_MOST_COLUMNS = 1000

Meanings = Mapping[int, tuple[str, float]]


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
    fields = _split(lines[0], separator_of(lines[0]))
    if _is_heading(fields):
        return len(fields) > 1 and any(_meaning(_normal(field)) or _NO_UNIT.match(_normal(field)) for field in fields)
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


def meanings(
    table: pl.DataFrame, heading: list[str] | None, where: str, hints: ReadHints
) -> tuple[dict[int, tuple[str, float]], list[str]]:
    """Return the quantity and the unit [s or bit/s] of each known column, by index; and notes.

    Raises:
        UserError: See `measure`, as far as the heading or the first row shows it.
    """
    names = _declared(heading, table.width, where, hints, table)
    notes: list[str] = []
    known = {place: meaning for place, name in enumerate(names) if name and (meaning := _meaning(name))}
    _check(known, names, heading, where)
    if passed := [name or str(place + 1) for place, name in enumerate(names) if place not in known]:
        notes.append(f"columns ignored: {', '.join(name[:40] for name in passed[:8])}{', …' if passed[8:] else ''}")
    return known, notes


class Cells:
    """The cells of a table, as text or validated numbers."""

    def __init__(self, table: pl.DataFrame, lines: pl.Series, where: str) -> None:
        """`lines` has the line number of each row."""
        self.table, self._lines, self._where = table, lines, where

    def text(self, place: int) -> pl.Series:
        """Return a column without surrounding blanks and quotes."""
        return self.table.to_series(place).str.strip_chars(" \t\"'")

    def number(
        self, place: int, quantity: str, low: float, high: float, *, lost: bool = False, gone: pl.Series | None = None
    ) -> pl.Series:
        """Return a column of numbers from `low` to `high`; null only where the cell marks a `lost` probe.

        One-way delays of unsynchronised clocks may be -1. With `gone`, -1 means lost only where `gone` is true.
        """
        text = self.text(place)
        if gone is not None:
            text = text.set(gone, "-1")
            missing = gone | text.str.to_lowercase().is_in([word for word in _LOST if not word.startswith("-1")])
        else:
            missing = text.str.to_lowercase().is_in(list(_LOST)) if lost else pl.repeat(False, text.len(), eager=True)
        values = text.set(missing, None).cast(pl.Float64, strict=False)
        bad = ~missing & ~values.is_between(low, high).fill_null(value=False)
        suffix = ", or -1 for a lost probe" if lost else ""
        self.refuse(bad, text, f"expected {quantity}, {low:g} to {high:g}{suffix}")
        return values

    def refuse(self, bad: pl.Series, text: pl.Series, expected: str) -> None:
        """Raise `UserError` for the first row that is `bad`."""
        if bad.any():
            row = int(bad.arg_max() or 0)
            raise UserError(f"{self._where}:{self._lines[row]}: {shown(text[row])}; {expected}")


def table_of(data: bytes, where: str) -> tuple[pl.DataFrame, list[str] | None, pl.Series]:
    """Return the cells as text, the heading (None: absent), and the line number of each row.

    Raises:
        UserError: `data` is not UTF-8 text, has no row, or has rows of different widths.
    """
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{where}:{line}: is not UTF-8 text (byte 0x{data[error.start]:02x})") from None
    rows = content_lines(lines_of(data).to_frame("text").with_row_index("line", 1))
    if not rows.height:
        raise UserError(f"{where}: the table has no row")
    first = str(rows["text"][0])
    separator = separator_of(first)
    fields = _split(first, separator)
    heading = fields if _is_heading(fields) else None
    if heading is not None:
        rows = rows[1:]
    if not 2 <= len(fields) <= _MOST_COLUMNS or not rows.height:
        raise UserError(
            f"{where}: {len(fields)} column(s) and {rows.height} row(s); expected a table with a time and a value"
        )
    return cells_of(rows, separator, len(fields), where), heading, rows["line"]


def content_lines(rows: pl.DataFrame) -> pl.DataFrame:
    """Return lines (`line`, `text`) without surrounding blanks and without comments (`is_aside`)."""
    rows = rows.with_columns(pl.col("text").str.strip_chars("\r "))
    return rows.filter(~pl.col("text").str.contains(_ASIDE))


def cells_of(rows: pl.DataFrame, separator: str, width: int, where: str) -> pl.DataFrame:
    """Split rows (`line`, `text`) into cells. Raises `UserError` for the first row with another number of cells."""
    text = rows["text"]
    if separator == " ":
        text = text.str.replace_all(r"\s+", " ")
    cells = text.str.split(separator)
    counts = cells.list.len()
    wrong = counts != width
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise UserError(
            f"{where}:{rows['line'][row]}: {counts[row]} column(s); expected {width}, as in the rows before"
        )
    return cells.list.to_struct(fields=[f"c{place}" for place in range(width)]).struct.unnest()


def _declared(heading: list[str] | None, width: int, where: str, hints: ReadHints, table: pl.DataFrame) -> list[str]:
    """Return a name with a unit for each column; empty: ignored."""
    if hints.units is not None:
        if len(hints.units) != width:
            raise UserError(f"{where}: --units names {len(hints.units)} columns, the table has {width}; - skips one")
        names = ["" if name == "-" else _normal(name) for name in hints.units]
        for given, name in zip(hints.units, names, strict=True):
            if name and _meaning(name) is None:
                raise UserError(
                    f"--units: {shown(given)} is no column with a unit; expected for example unix_s, rtt_ms, down_mbps"
                )
        return names
    if heading is not None:
        return [_normal(name) for name in heading]
    unit = era(str(table[0, 0]))
    if width not in (2, 3) or unit is None:
        raise UserError(f"{where}: has no heading; name its columns, as --units unix_s,rtt_ms")
    return [f"unix_{unit}", *(["seq"] if width == 3 else []), "rtt_ms"]


def _check(known: Meanings, names: Sequence[str], heading: list[str] | None, where: str) -> None:
    kinds = ["time" if quantity == "epoch" else quantity for quantity, _ in known.values()]
    if not any(quantity == "rtt" or quantity.startswith("rate") for quantity in kinds):
        bare = next((name for name in names if _NO_UNIT.match(name)), None)
        if bare is not None and heading is not None:
            raise UserError(
                f"{where}: column {shown(heading[list(names).index(bare)])} has no unit; try --units, as "
                f"{_with_unit(bare)}"
            )
        if {"y", "x"} <= set(names):
            raise UserError(
                f"{where}: holds pixels of a terminal's obstruction map, which no Run contains; try `bentpipe serving`"
            )
        raise UserError(f"{where}: no column is an RTT or a rate with its unit; expected for example rtt_ms, down_mbps")
    twice = [quantity for quantity in dict.fromkeys(kinds) if kinds.count(quantity) > 1]
    if twice:
        raise UserError(f"{where}: two columns are {twice[0].replace('_', ' ')}; choose one with --units (- skips one)")
    if "time" not in kinds and "instant" not in kinds:
        raise UserError(f"{where}: no column has times; expected for example unix_s, timestamp, or t_s")


def _with_unit(bare: str) -> str:
    """Return an example of the name with a unit."""
    rate = bool(_RATES.match(bare))
    name = f"{bare[:40]}_{'mbps' if rate else 'ms'}"
    return name if _meaning(name) else ("down_mbps" if rate else "rtt_ms")


def _times(cells: Cells, known: Meanings, hints: ReadHints, notes: list[str]) -> tuple[pl.Series, bool]:
    """Return the time of each row [ns since 1970], and whether it is a wall clock's."""
    place, (quantity, unit_s) = next((p, m) for p, m in known.items() if m[0] in ("time", "epoch", "instant"))
    if quantity == "instant":
        return _instants(cells, place, notes), True
    times = since(cells, place, unit_s)
    text = cells.text(place)
    cells.refuse(beyond(times, absolute=of_clock(quantity, times[0])), text, expected_time(unit_s, str(text[0])))
    return counted_from(times, hints, notes)


def since(cells: Cells, place: int, unit_s: float) -> pl.Series:
    """Return a column of times in whole nanoseconds, since 1970 or the start of the measurement."""
    text = cells.text(place)
    # Nanoseconds need more digits than a float has.
    parts = text.str.extract_groups(r"^([0-9]{1,19})(?:\.([0-9]{1,15}))?$").struct.rename_fields(["whole", "part"])
    whole = parts.struct.field("whole").cast(pl.Int64, strict=False)
    scale = round(unit_s * 1e9)
    part = (pl.Series(["0."] * text.len()) + parts.struct.field("part").fill_null("0")).cast(pl.Float64, strict=False)
    bad = whole.is_null() | (whole > 2**62 // scale)
    cells.refuse(bad, text, "expected a time since 1970, or since the start")
    return whole * scale + (part * scale).round().cast(pl.Int64)


def of_clock(quantity: str, first_ns: int) -> bool:
    """Return whether times count from 1970, by the column's name or by the first time."""
    return quantity == "epoch" or first_ns >= _CLOCK_NS


def beyond(times: pl.Series, *, absolute: bool) -> pl.Series:
    """Return which times of `since` are out of range: outside 2000 to 2100 if absolute, else since 1970."""
    if absolute:
        return ~times.is_between(_ERA_S[0] * 10**9, _ERA_S[1] * 10**9)
    return times >= _CLOCK_NS


def expected_time(unit_s: float, first: str) -> str:
    """Return the `expected …` part of a message on a time; `first` is the first time of the column."""
    unit = next(name for name, scale in _S.items() if scale == unit_s)
    size = era(first)
    rather = f" (by its magnitude it is in {size}; try --units)" if size not in (None, unit) else ""
    return f"expected a time of 2000 to 2100 in {unit} since 1970, or times since the start in all rows{rather}"


def counted_from(times: pl.Series, hints: ReadHints, notes: list[str]) -> tuple[pl.Series, bool]:
    """Convert times of `since` to times since 1970 [ns]; return them, and whether they are a wall clock's."""
    if bool((times >= _CLOCK_NS).any()):
        return times, True
    notes.append(COUNTED + ("" if hints.start_unix_ns is not None else " (--start sets it)"))
    return times + (hints.start_unix_ns or 0), hints.start_unix_ns is not None


def _instants(cells: Cells, place: int, notes: list[str]) -> pl.Series:
    """Parse times in ISO 8601, or numbers since 1970 whose magnitude gives the unit."""
    text = cells.text(place)
    unit = era(str(text[0]))
    if unit is not None:
        notes.append(by_size(unit))
        scale = 10**9 // _SCALES[unit]
        parts = text.str.extract_groups(r"^([0-9]{1,19})(?:(\.[0-9]{1,15})[0-9]*)?$").struct.unnest()
        whole = parts.to_series(0).cast(pl.Int64, strict=False)
        part = parts.to_series(1).fill_null(".0")
        low, high = (edge * _SCALES[unit] for edge in _ERA_S)
        cells.refuse(
            ~whole.is_between(low, high).fill_null(value=False),
            text,
            f"expected a time of 2000 to 2100 in {unit} since 1970, as the first row has it",
        )
        fraction = (pl.Series(["0"] * text.len()) + part).cast(pl.Float64, strict=False)
        return whole * scale + (fraction * scale).round().cast(pl.Int64)
    instants, naive = parse_instants(text)
    bad = instants.is_null() & (text != "\0")
    cells.refuse(bad, text, "expected a time as 2026-05-10T09:00:00Z, or seconds since 1970")
    if naive:
        notes.append(NO_ZONE)
    return instants


def by_size(unit: str) -> str:
    """Return the note on times whose unit follows from their magnitude."""
    return f"its times are read as {unit} since 1970, by their magnitude"


def parse_instants(text: pl.Series) -> tuple[pl.Series, bool]:
    """Parse ISO 8601 times, with ``T`` or a blank, as ns since 1970 (null: invalid); and whether any lacks a zone."""
    parts = text.str.extract_groups(
        r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]{1,9}))?[0-9]*(Z|z| ?UTC)?"
        r"(?:([+-])([0-9]{2}):?([0-9]{2}))?$"
    ).struct.rename_fields(["date", "time", "part", "z", "sign", "h", "m"])
    frame = parts.struct.unnest()
    seconds = (frame["date"] + " " + frame["time"]).str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False)
    nanos = frame["part"].fill_null("").str.pad_end(9, "0").cast(pl.Int64)
    offset_s = frame["h"].fill_null("0").cast(pl.Int64) * 3600 + frame["m"].fill_null("0").cast(pl.Int64) * 60
    signed = offset_s * pl.select(pl.when(frame["sign"] == "-").then(-1).otherwise(1)).to_series()
    stamps = seconds.dt.timestamp("ms") // 1000 - signed
    # The range of 64-bit nanoseconds since 1970, without negative times.
    stamps = stamps.set((stamps < 0) | (stamps >= 2**33), None)
    naive = bool((frame["date"].is_not_null() & frame["z"].is_null() & frame["sign"].is_null()).any())
    return stamps * 10**9 + nanos, naive


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
            way = given.replace_strict(dict(_WAYS), default=None, return_dtype=pl.String)
            cells.refuse(way.is_null(), given, "expected down or up")
        parts.append(
            pl.DataFrame({**about, "direction": way, "goodput_bps": rate, "duration_s": duration, "t_s": duration})
        )
    whole = pl.concat(parts).with_columns(pl.lit(0, pl.Int64).alias("flow"))
    return whole.sort("unix_ns", maintain_order=True)


def _normal(name: str) -> str:
    """Return `name` in snake case: ``popPingLatencyMs`` becomes ``pop_ping_latency_ms``."""
    text = name.strip().strip("\"'@").rpartition(".")[2]
    text = _NEITHER.sub("", text)
    text = _BYTES.sub(lambda match: f"_{match[1].lower()}bytes_per_s", text)
    text = _BITS.sub(lambda match: f"_{match[1].lower()}bps", text)
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    text = re.sub(r"(?i)[µμ]s", "us", text)
    text = re.sub(r"(?i)(?<![a-z])(k|m|g)bit/?s\b", r"\1bps", text)
    return re.sub(r"[^0-9a-z]+", "_", text.lower()).strip("_")


def _meaning(name: str) -> tuple[str, float] | None:  # noqa: PLR0911 - a list of what there may be
    """Return the quantity of a column and its unit [s or bit/s]; None: unknown."""
    if match := _TIME.match(name):
        return ("epoch" if match[1] else "time"), _S[match[2]]
    if _INSTANT.match(name) or name == "datetimestamp_utc":
        return "instant", 1.0
    if _END.match(name):
        return "end", 1.0
    if match := _RTT.match(name):
        return "rtt", _S[match[1]]
    if match := _ONE_WAY.match(name):
        return _WAYS[match[1] or match[2] or match[3]], _S[match[4]]
    if (match := _RATE.match(name)) and (match[1] or match[2]):
        return ("rate" if match[1] is None else f"rate_{_WAYS[match[1]]}"), _BPS[match[3]]
    return (_NAMES[name], 1.0) if name in _NAMES else None


def separator_of(line: str) -> str:
    """Return the separator of a line's fields."""
    return next((mark for mark in ("\t", ",", ";") if mark in line), " ")


def _split(line: str, separator: str) -> list[str]:
    return [field.strip() for field in (line.split() if separator == " " else line.split(separator))]


def is_heading(text: bytes) -> bool:
    """Return whether the first line of a table with this beginning is a heading."""
    lines = (line.decode("utf-8", "replace") for line in text.split(b"\n"))
    first = next((line for line in lines if not is_aside(line)), "").strip("\r ")
    return _is_heading(_split(first, separator_of(first)))


def is_aside(line: str) -> bool:
    """Return whether a line is empty, a comment, or Excel's separator declaration (``sep=;``)."""
    return re.match(_ASIDE, line.strip("\r ")) is not None


def _is_heading(fields: list[str]) -> bool:
    # pandas and R write an index as a first column without a name.
    unnamed = len(fields) > 2 and fields[0].strip("\"'") == ""
    return bool(fields) and bool(re.match(r"[\"']?[@A-Za-z_]", fields[1 if unnamed else 0]))


def era(text: str) -> str | None:
    """Return the unit in which a number is an instant of 2000 to 2100; None: in no unit."""
    if not re.fullmatch(r"[0-9]{9,19}(\.[0-9]{1,15})?", text):
        return None
    value = float(text)
    return next((unit for unit, scale in _SCALES.items() if _ERA_S[0] <= value / scale < _ERA_S[1]), None)
