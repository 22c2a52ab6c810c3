"""The result of reading a file: tables of a measured Run, and notes on assumptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

Clock = Literal["utc", "relative"]

#: Column types; `pl.DataTypeClass` and its instances have no common name in Polars' public types.
Columns = Mapping[str, "type[pl.DataType] | pl.DataType"]

#: One row per probe and per duplicate reply, sorted by send time. `rtt_ms` null: lost.
PROBES: Columns = {
    "unix_ns": pl.Int64,
    "site": pl.String,
    "target": pl.String,
    "kind": pl.String,
    "seq": pl.Int64,
    "rtt_ms": pl.Float64,
    "up_ms": pl.Float64,
    "down_ms": pl.Float64,
    "duplicate": pl.Boolean,
    "out_of_order": pl.Boolean,
}

#: Gap between two successive measurements without timestamps [ns]; chosen here.
SECOND_NS = 10**9


@dataclass(frozen=True)
class ReadHints:
    """Facts that the user states about a file because the file does not contain them.

    Attributes:
        every_s: Probe interval [s], for logs without timestamps.
        start_unix_ns: Start of the file [ns since 1970], for files without a wall clock.
        units: Column names with units, left to right; ``-`` skips a column (docs/reference/read.md).
        direction: Direction of a trace that does not state one.
        times: Whether a table's timestamps are send times (`probe`) or reply times; None: detect.
    """

    every_s: float | None = None
    start_unix_ns: int | None = None
    units: Sequence[str] | None = None
    direction: Literal["up", "down"] | None = None
    times: Literal["probe", "reply"] | None = None


@dataclass(frozen=True)
class Measurement:
    """The content of a file.

    Attributes:
        tables: Tables by their name in `bentpipe.measurements.runs.TABLES`, with the columns of that table except
            `site`, which no file contains, and `source`, the file's name.
        clock: ``utc``: times are wall-clock times. ``relative``: times start in 1970, or at the user's start time, and
            only their differences are meaningful.
        counted: Whether times are relative because the file has no timestamps.
        clock_jumps: Number of times that the clock stepped back, or stepped forward without a gap in sequence numbers.
        notes: One line per missing fact or assumption.
    """

    tables: Mapping[str, pl.DataFrame]
    clock: Clock = "utc"
    clock_jumps: int = 0
    notes: Sequence[str] = field(default_factory=tuple)
    counted: bool = False
