"""Tables with declared units: CSV, tabs or blanks, whose heading (or user) says what each column is, in which unit.

``rtt_ms`` is an RTT in milliseconds, ``unix_ns`` a time in nanoseconds, ``download_mbps`` a rate in Mbit/s. A
table without a heading is read only if it is ``time rtt_ms`` or ``time seq rtt_ms`` and its times are instants of these
decades, whose unit their size tells.
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
from bentpipe.measurements.readers.measurement import Measurement, Said
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
#: `download_s` is how long a download took.
_ONE_WAY = re.compile(
    rf"(?:({_WAY})(?:_delay|_latency|_owd)|(up|down|ul|dl|uplink|downlink)|(?:owd|delay|latency)_({_WAY}))_(s|ms|us|ns)$"
)
_RATE = re.compile(
    rf"(?:({_WAY})_?)?(throughput|goodput|rate|speed|bandwidth|capacity)?_?((?:k|m|g|ki|mi|gi)?(?:bps|bytes_per_s))$"
)
#: Bytes per second by their capital B, and bits by a small one; all in capitals is neither.
#: (A terminal's `downlinkThroughputBps` is in bits: its capital begins a word.)
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
#: Words that name a quantity, and no unit: such a column is not guessed at.
_NO_UNIT = re.compile(r"(?:rtt|latency|ping|delay|owd|throughput|goodput|download|upload|rate|speed)(?:_|$)")
_RATES = re.compile(r"throughput|goodput|download|upload|rate|speed")
_LOST = ("", "-1", "-1.0", "nan", "null", "none", "*", "lost", "timeout", "-")
_YES, _NO = ("1", "1.0", "true", "t", "yes", "y"), ("0", "0.0", "false", "f", "no", "n")
#: Times without a unit are told apart by their size within these years [s]: 2000 to 2100.
_ERA_S = (946_684_800, 4_102_444_800)
#: Times from here on [ns] are since 1970, earlier ones since a beginning: 1973.
_CLOCK_NS = 10**17
_SCALES = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
#: The note on times that are none of a wall clock.
COUNTED = "its times count from its beginning"
#: The note on instants that do not say theirs.
NO_ZONE = "its times have no zone: taken for UTC"
#: The note on times of replies.
OF_REPLIES = "its times are those of the replies, as said: the RTTs are taken off"
_ASIDE = r"^(?:$|#|(?i:sep)=.$)"
#: Largest number of a probe: a double holds it exactly.
MOST_SEQ = 2**53
#: Most columns; chosen here.
_MOST_COLUMNS = 1000

Meanings = Mapping[int, tuple[str, float]]


def is_table(head: bytes) -> bool:
    """Whether a text that begins so may be such a table: a heading with a time or a unit, or rows of numbers."""
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:  # else cut in the middle of a character
            return False
        text = head[: error.start].decode(errors="ignore")
    lines = [line for line in text.splitlines() if not is_aside(line)]
    if len(lines) < 2:
        return False
    fields = _split(lines[0], separator_of(lines[0]))
    if _is_heading(fields):
        return len(fields) > 1 and any(_meaning(_normal(field)) or _NO_UNIT.match(_normal(field)) for field in fields)
    return len(fields) in (2, 3) and era(fields[0]) is not None


def measure(data: bytes, where: str, said: Said) -> Measurement:
    """RTTs as `probes`, rates as `samples`, one test a row.

    A RTT that is -1, empty or a word for it is a lost probe. Where there are numbers (`seq`), those that are
    missing are lost probes too.

    Raises:
        UserError: A column without a unit, cells that are no numbers, no RTT and no rate; the line is named.
    """
    table, heading, lines = table_of(data, where)
    known, notes = meanings(table, heading, where, said)
    cells = Cells(table, lines, where)
    times_ns, clock = _times(cells, known, said, notes)
    tables: dict[str, pl.DataFrame] = {}
    jumps = 0
    if any(what == "rtt" for what, _ in known.values()):
        tables["probes"], jumps = _probes(cells, known, times_ns, said, notes)
    if any(what.startswith("rate") for what, _ in known.values()):
        tables["samples"] = _samples(cells, known, times_ns)
    counted = any(note.startswith(COUNTED) for note in notes)
    return Measurement(tables, "utc" if clock else "relative", jumps, tuple(notes), counted)


def meanings(
    table: pl.DataFrame, heading: list[str] | None, where: str, said: Said
) -> tuple[dict[int, tuple[str, float]], list[str]]:
    """What each column that is known means, with its unit in s or bit/s, by place; and notes.

    Raises:
        UserError: See `measure`: of what a heading, or the first row, tells.
    """
    names = _declared(heading, table.width, where, said, table)
    notes: list[str] = []
    known = {place: meaning for place, name in enumerate(names) if name and (meaning := _meaning(name))}
    _check(known, names, heading, where)
    if passed := [name or str(place + 1) for place, name in enumerate(names) if place not in known]:
        notes.append(f"columns passed over: {', '.join(name[:40] for name in passed[:8])}{', …' if passed[8:] else ''}")
    return known, notes


class Cells:
    """The cells of a table as text, and as whatever they should be."""

    def __init__(self, table: pl.DataFrame, lines: pl.Series, where: str) -> None:
        """`lines`: the number of each row's line."""
        self.table, self._lines, self._where = table, lines, where

    def text(self, place: int) -> pl.Series:
        """A column, without blanks and quotes around."""
        return self.table.to_series(place).str.strip_chars(" \t\"'")

    def number(
        self, place: int, what: str, low: float, high: float, *, lost: bool = False, gone: pl.Series | None = None
    ) -> pl.Series:
        """A column of numbers in a range; null only where the cell says that it is `lost`.

        Two clocks may differ by a negative delay: with `gone`, -1 says so only where the probe is.
        """
        text = self.text(place)
        if gone is not None:
            text = text.set(gone, "-1")
            missing = gone | text.str.to_lowercase().is_in([word for word in _LOST if not word.startswith("-1")])
        else:
            missing = text.str.to_lowercase().is_in(list(_LOST)) if lost else pl.repeat(False, text.len(), eager=True)
        found = text.set(missing, None).cast(pl.Float64, strict=False)
        bad = ~missing & ~found.is_between(low, high).fill_null(value=False)
        self.refuse(bad, text, f"wanted {what}, {low:g} to {high:g}" + (", or -1 for a lost probe" if lost else ""))
        return found

    def refuse(self, bad: pl.Series, text: pl.Series, wanted: str) -> None:
        """Raises for the first row that is `bad`."""
        if bad.any():
            row = int(bad.arg_max() or 0)
            raise UserError(f"{self._where}:{self._lines[row]}: {shown(text[row])}; {wanted}")


def table_of(data: bytes, where: str) -> tuple[pl.DataFrame, list[str] | None, pl.Series]:
    """Cells as text, the heading (None: there is none), and the number of each row's line.

    Raises:
        UserError: It is not UTF-8 text, has no row, or rows of several widths.
    """
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{where}:{line}: is not UTF-8 text (byte 0x{data[error.start]:02x})") from None
    rows = worded(lines_of(data).to_frame("text").with_row_index("line", 1))
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
            f"{where}: {len(fields)} column(s) and {rows.height} row(s); wanted a table with a time and a value"
        )
    return cells_of(rows, separator, len(fields), where), heading, rows["line"]


def worded(rows: pl.DataFrame) -> pl.DataFrame:
    """Lines (`line`, `text`) without blanks around, without those that are aside (`is_aside`)."""
    rows = rows.with_columns(pl.col("text").str.strip_chars("\r "))
    return rows.filter(~pl.col("text").str.contains(_ASIDE))


def cells_of(rows: pl.DataFrame, separator: str, width: int, where: str) -> pl.DataFrame:
    """The cells of rows (`line`, `text`). Raises `UserError` for the first that has another number of them."""
    text = rows["text"]
    if separator == " ":
        text = text.str.replace_all(r"\s+", " ")
    cells = text.str.split(separator)
    counts = cells.list.len()
    wrong = counts != width
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise UserError(f"{where}:{rows['line'][row]}: {counts[row]} column(s); wanted {width}, as before")
    return cells.list.to_struct(fields=[f"c{place}" for place in range(width)]).struct.unnest()


def _declared(heading: list[str] | None, width: int, where: str, said: Said, table: pl.DataFrame) -> list[str]:
    """A name with a unit for each column; empty: passed over."""
    if said.units is not None:
        if len(said.units) != width:
            raise UserError(
                f"{where}: --units names {len(said.units)} columns, the table has {width}; - passes one over"
            )
        names = ["" if name == "-" else _normal(name) for name in said.units]
        for given, name in zip(said.units, names, strict=True):
            if name and _meaning(name) is None:
                raise UserError(
                    f"--units: {shown(given)} is no column with a unit; wanted such as unix_s, rtt_ms, down_mbps"
                )
        return names
    if heading is not None:
        return [_normal(name) for name in heading]
    unit = era(str(table[0, 0]))
    if width not in (2, 3) or unit is None:
        raise UserError(f"{where}: has no heading; say what its columns are, as --units unix_s,rtt_ms")
    return [f"unix_{unit}", *(["seq"] if width == 3 else []), "rtt_ms"]


def _check(known: Meanings, names: Sequence[str], heading: list[str] | None, where: str) -> None:
    kinds = ["time" if what == "epoch" else what for what, _ in known.values()]
    if not any(what == "rtt" or what.startswith("rate") for what in kinds):
        bare = next((name for name in names if _NO_UNIT.match(name)), None)
        if bare is not None and heading is not None:
            raise UserError(
                f"{where}: column {shown(heading[list(names).index(bare)])} has no unit; say it: --units, as "
                f"{_with_unit(bare)}"
            )
        if {"y", "x"} <= set(names):
            raise UserError(
                f"{where}: holds pixels of a terminal's obstruction map, and nothing for a Run: give it to "
                "`bentpipe serving`"
            )
        raise UserError(f"{where}: no column is an RTT or a rate with its unit; wanted such as rtt_ms or down_mbps")
    twice = [what for what in dict.fromkeys(kinds) if kinds.count(what) > 1]
    if twice:
        raise UserError(
            f"{where}: two columns are {twice[0].replace('_', ' ')}; say which with --units (- passes one over)"
        )
    if "time" not in kinds and "instant" not in kinds:
        raise UserError(f"{where}: no column says when; wanted such as unix_s, timestamp, or t_s")


def _with_unit(bare: str) -> str:
    """Such a name with a unit, for an example."""
    rate = bool(_RATES.match(bare))
    found = f"{bare[:40]}_{'mbps' if rate else 'ms'}"
    return found if _meaning(found) else ("down_mbps" if rate else "rtt_ms")


def _times(cells: Cells, known: Meanings, said: Said, notes: list[str]) -> tuple[pl.Series, bool]:
    """When each row was [ns since 1970], and whether that is by a wall clock."""
    place, (what, unit_s) = next((p, m) for p, m in known.items() if m[0] in ("time", "epoch", "instant"))
    if what == "instant":
        return _instants(cells, place, notes), True
    found = since(cells, place, unit_s)
    text = cells.text(place)
    cells.refuse(beyond(found, absolute=of_clock(what, found[0])), text, wanted_time(unit_s, str(text[0])))
    return counted_from(found, said, notes)


def since(cells: Cells, place: int, unit_s: float) -> pl.Series:
    """A column of times as whole nanoseconds, since whatever they are since."""
    text = cells.text(place)
    # Decimal digits beyond a float's matter in nanoseconds.
    parts = text.str.extract_groups(r"^([0-9]{1,19})(?:\.([0-9]{1,15}))?$").struct.rename_fields(["whole", "part"])
    whole = parts.struct.field("whole").cast(pl.Int64, strict=False)
    scale = round(unit_s * 1e9)
    part = (pl.Series(["0."] * text.len()) + parts.struct.field("part").fill_null("0")).cast(pl.Float64, strict=False)
    bad = whole.is_null() | (whole > 2**62 // scale)
    cells.refuse(bad, text, "wanted a time since 1970, or since the beginning")
    return whole * scale + (part * scale).round().cast(pl.Int64)


def of_clock(what: str, first_ns: int) -> bool:
    """Whether times are since 1970: by the column's name, or by the first."""
    return what == "epoch" or first_ns >= _CLOCK_NS


def beyond(found: pl.Series, *, absolute: bool) -> pl.Series:
    """Which of the times that `since` finds are not of the kind that the others are."""
    if absolute:
        return ~found.is_between(_ERA_S[0] * 10**9, _ERA_S[1] * 10**9)
    return found >= _CLOCK_NS


def wanted_time(unit_s: float, first: str) -> str:
    """What a time should have been, for a message; `first`: the first of the column."""
    unit = next(name for name, scale in _S.items() if scale == unit_s)
    size = era(first)
    rather = f" (by its size it is in {size}: --units says it)" if size not in (None, unit) else ""
    return f"wanted a time of 2000 to 2100 in {unit} since 1970, or of all rows one since the beginning{rather}"


def counted_from(found: pl.Series, said: Said, notes: list[str]) -> tuple[pl.Series, bool]:
    """Times since 1970 [ns] of those that `since` finds, and whether that is by a wall clock."""
    if bool((found >= _CLOCK_NS).any()):
        return found, True
    notes.append(COUNTED + ("" if said.start_unix_ns is not None else " (--start says when)"))
    return found + (said.start_unix_ns or 0), said.start_unix_ns is not None


def _instants(cells: Cells, place: int, notes: list[str]) -> pl.Series:
    """Times as ISO-8601, or as numbers since 1970 whose size says their unit."""
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
            f"wanted a time of 2000 to 2100 in {unit} since 1970, as the first row has it",
        )
        fraction = (pl.Series(["0"] * text.len()) + part).cast(pl.Float64, strict=False)
        return whole * scale + (fraction * scale).round().cast(pl.Int64)
    found, naive = parse_instants(text)
    cells.refuse(found.is_null() & (text != "\0"), text, "wanted a time as 2026-05-10T09:00:00Z, or seconds since 1970")
    if naive:
        notes.append(NO_ZONE)
    return found


def by_size(unit: str) -> str:
    """The note on times whose unit nobody says."""
    return f"its times are taken for {unit} since 1970, by their size"


def parse_instants(text: pl.Series) -> tuple[pl.Series, bool]:
    """ISO-8601 times, ``T`` or a blank before the time, as ns since 1970 (null: none); whether any has no zone."""
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
    # What nanoseconds since 1970 hold, and no negative times.
    stamps = stamps.set((stamps < 0) | (stamps >= 2**33), None)
    naive = bool((frame["date"].is_not_null() & frame["z"].is_null() & frame["sign"].is_null()).any())
    return stamps * 10**9 + nanos, naive


def _probes(
    cells: Cells, known: Meanings, times_ns: pl.Series, said: Said, notes: list[str]
) -> tuple[pl.DataFrame, int]:
    by = {what: (place, scale) for place, (what, scale) in known.items()}
    place, scale = by["rtt"]
    milli = scale * 1e3
    frame = pl.DataFrame(
        {"unix_ns": times_ns, "rtt_ms": cells.number(place, "an RTT", 0, MAX_RTT_MS / milli, lost=True) * milli}
    )
    if "lost" in by:
        words = cells.text(by["lost"][0]).str.to_lowercase()
        gone = words.is_in(_YES)
        cells.refuse(
            ~gone & ~words.is_in(_NO), words, "wanted 1 or 0 (true, false, yes, no) of a probe that may be lost"
        )
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
    return probes_of(frame, said, notes)


def probes_of(frame: pl.DataFrame, said: Said, notes: list[str]) -> tuple[pl.DataFrame, int]:
    """Probes from rows, and how often the clock jumped.

    Args:
        frame: `unix_ns`, `rtt_ms` (null: lost); if the table has them `seq`, `site`, `target`, `kind` (else icmp),
            `up_ms`, `down_ms`.
        said: What the user says.
        notes: Lines on what was assumed go here.
    """
    keys = [name for name in KEYS if name in frame.columns]
    every = frame.partition_by(keys, maintain_order=True) if keys else [frame]
    each = ((part["unix_ns"].to_numpy(), part["rtt_ms"].fill_null(np.nan).to_numpy()) for part in every)
    found = timestamps_of(each, said.times, notes)
    notes += [OF_REPLIES] if said.times == "reply" else []
    said = replace(said, times=found)
    del every
    if "kind" not in keys:
        frame = frame.with_columns(pl.lit("icmp").alias("kind"))
    if "seq" not in frame.columns:
        if not frame["rtt_ms"].null_count():
            notes.append("no row is a lost probe: if they are absent, they are counted as gaps only")
        steps = pl.col("unix_ns").diff()
        back = frame.select((steps.over(keys) if keys else steps) < -BACK_S * 1e9).sum().item()
        return sent(frame, said).with_columns(
            pl.lit(value=False).alias("duplicate"), pl.lit(value=False).alias("out_of_order")
        ), int(back)
    frame = sent(frame, said)
    parts, jumps = [], 0
    for part in frame.partition_by(keys, maintain_order=True) if keys else [frame]:
        if part["rtt_ms"].null_count() == part.height:
            parts.append(part.with_columns(duplicate=pl.lit(value=False), out_of_order=pl.lit(value=False)))
            continue
        answers = Answers(
            part["seq"].to_numpy(),
            part["unix_ns"].to_numpy(),
            part["rtt_ms"].fill_null(np.nan).to_numpy(),
            exact=said.times == "reply",
            silent_times=True,
        )
        one = series(answers, said, "the table")
        jumps += one.clock_jumps
        notes += [note for note in one.notes if note not in notes]
        extra = [name for name in ("up_ms", "down_ms") if name in part.columns]
        first = part.select(name for name in KEYS if name in part.columns).head(1)
        numbered = one.table.with_columns(
            pl.lit(value, pl.String).alias(name) for name, value in first.row(0, named=True).items()
        )
        if extra:
            # Numbers may begin again: only with the time they say which probe.
            short = (pl.col("seq") % WRAP).alias("short")
            delays = part.select("unix_ns", short, *extra).unique(["unix_ns", "short"], keep="first")
            numbered = (
                numbered.with_columns(short)
                .join(delays, on=["unix_ns", "short"], how="left", maintain_order="left")
                .drop("short")
            )
        parts.append(numbered)
    return pl.concat(parts, how="diagonal_relaxed"), jumps


def sent(frame: pl.DataFrame, said: Said) -> pl.DataFrame:
    """Rows (`unix_ns`, `rtt_ms`) whose times are those of the probes.

    Times of replies lose their RTTs; of a lost probe nothing came, and its time stays.
    """
    if said.times != "reply":
        return frame
    trips_ns = (pl.col("rtt_ms").fill_null(0.0) * 1e6).round().cast(pl.Int64)
    times_ns = frame.select(pl.col("unix_ns") - trips_ns).to_series()
    # Without a clock the first reply may have come before an RTT was over since the beginning.
    before_ns = min(0, int(times_ns.min() or 0))  # type: ignore[arg-type]
    return frame.with_columns((times_ns - before_ns).alias("unix_ns"))


def _samples(cells: Cells, known: Meanings, times_ns: pl.Series) -> pl.DataFrame:
    by = {what: (place, scale) for place, (what, scale) in known.items()}
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
    for what, (place, scale) in by.items():
        if not what.startswith("rate"):
            continue
        rate = cells.number(place, "a rate", 0, MAX_BPS / scale, lost=True) * scale
        way = pl.repeat(
            what.removeprefix("rate_") if "_" in what else None, times_ns.len(), dtype=pl.String, eager=True
        )
        if "direction" in by and "_" not in what:
            given = cells.text(by["direction"][0]).str.to_lowercase()
            way = given.replace_strict(dict(_WAYS), default=None, return_dtype=pl.String)
            cells.refuse(way.is_null(), given, "wanted down or up")
        parts.append(
            pl.DataFrame({**about, "direction": way, "goodput_bps": rate, "duration_s": duration, "t_s": duration})
        )
    whole = pl.concat(parts).with_columns(pl.lit(0, pl.Int64).alias("flow"))
    return whole.sort("unix_ns", maintain_order=True)


def _normal(name: str) -> str:
    """`name` in lower case with underscores: ``popPingLatencyMs`` is ``pop_ping_latency_ms``."""
    text = name.strip().strip("\"'@").rpartition(".")[2]
    text = _NEITHER.sub("", text)
    text = _BYTES.sub(lambda match: f"_{match[1].lower()}bytes_per_s", text)
    text = _BITS.sub(lambda match: f"_{match[1].lower()}bps", text)
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    text = re.sub(r"(?i)[µμ]s", "us", text)
    text = re.sub(r"(?i)(?<![a-z])(k|m|g)bit/?s\b", r"\1bps", text)
    return re.sub(r"[^0-9a-z]+", "_", text.lower()).strip("_")


def _meaning(name: str) -> tuple[str, float] | None:  # noqa: PLR0911 - a list of what there may be
    """What a column is, and its unit in seconds or bit/s; None: nothing that is known."""
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
    """What stands between the fields of a line."""
    return next((mark for mark in ("\t", ",", ";") if mark in line), " ")


def _split(line: str, separator: str) -> list[str]:
    return [field.strip() for field in (line.split() if separator == " " else line.split(separator))]


def is_heading(text: bytes) -> bool:
    """Whether the first line of a table that begins so is a heading."""
    lines = (line.decode("utf-8", "replace") for line in text.split(b"\n"))
    first = next((line for line in lines if not is_aside(line)), "").strip("\r ")
    return _is_heading(_split(first, separator_of(first)))


def is_aside(line: str) -> bool:
    """Whether a line is neither a row nor a heading: empty, a comment, or Excel's word on the separator (``sep=;``)."""
    return re.match(_ASIDE, line.strip("\r ")) is not None


def _is_heading(fields: list[str]) -> bool:
    # pandas and R write an index as a first column without a name.
    unnamed = len(fields) > 2 and fields[0].strip("\"'") == ""
    return bool(fields) and bool(re.match(r"[\"']?[@A-Za-z_]", fields[1 if unnamed else 0]))


def era(text: str) -> str | None:
    """The unit in which a number is an instant of 2000 to 2100; None: it is none."""
    if not re.fullmatch(r"[0-9]{9,19}(\.[0-9]{1,15})?", text):
        return None
    value = float(text)
    return next((unit for unit, scale in _SCALES.items() if _ERA_S[0] <= value / scale < _ERA_S[1]), None)
