"""What a reader makes of a whole file: tables as a measured Run has them, and what was counted or assumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

Clock = Literal["utc", "relative"]

#: Column types; `pl.DataTypeClass` and its instances have no common name in Polars' public types.
Columns = Mapping[str, "type[pl.DataType] | pl.DataType"]

#: One row for each probe and each duplicate of a reply, sorted by the time it was sent. `rtt_ms` null: lost.
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

#: What lies between the end of one measurement and the next [ns] where nothing says how long that was; chosen here.
SECOND_NS = 10**9


@dataclass(frozen=True)
class Said:
    """What a user says about files that do not say it themselves.

    Attributes:
        every_s: Time between probes [s], of logs without times.
        start_unix_ns: When the file begins [ns since 1970], of files without a wall clock.
        units: Names with units of a table's columns, left to right; ``-`` passes one over (docs/reference/read.md).
        direction: Which way a trace goes that does not say.
        times: Whether the timestamps of a table are send times (`probe`) or reply times; None: as they look.
    """

    every_s: float | None = None
    start_unix_ns: int | None = None
    units: Sequence[str] | None = None
    direction: Literal["up", "down"] | None = None
    times: Literal["probe", "reply"] | None = None


@dataclass(frozen=True)
class Measurement:
    """A file, read.

    Attributes:
        tables: By name of `bentpipe.measurements.runs.TABLES`, with columns of theirs; neither the site, which no
            file knows, nor `source`, its name.
        clock: ``utc``: times are those of a wall clock. ``relative``: they count from 1970, or from what the user said,
            and only their differences mean anything.
        counted: Whether they do so because there are none in the file.
        clock_jumps: How often the clock went back, or forward while the numbers went on.
        notes: Lines on what is missing or was assumed.
    """

    tables: Mapping[str, pl.DataFrame]
    clock: Clock = "utc"
    clock_jumps: int = 0
    notes: Sequence[str] = field(default_factory=tuple)
    counted: bool = False
