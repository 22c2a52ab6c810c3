"""Tables of a measured Run and their columns; ``docs/reference/measured-run.md`` defines each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import polars as pl

from bentpipe.analysis.path import HOPS as _ANSWERS
from bentpipe.errors import UserError
from bentpipe.measurements.dish.recording.tables import TABLES as _RECORDING
from bentpipe.measurements.dish.recording.tables import TRACK
from bentpipe.measurements.readers.measurement import PROBES, Columns

#: Kinds of probes.
KINDS = ("icmp", "tcp", "udp")

#: Answers of traceroutes, the input of `bentpipe.analysis.path_segments`.
HOPS: Columns = dict(_ANSWERS)

#: Throughput by interval: the columns of a Run's `samples` that a tool at one end measures, with time and source.
SAMPLES: Columns = {
    "unix_ns": pl.Int64,
    "source": pl.String,
    "target": pl.String,
    "t_s": pl.Float64,
    "duration_s": pl.Float64,
    "test": pl.Int64,
    "flow": pl.Int64,
    "direction": pl.String,
    "controller": pl.String,
    "omitted": pl.Boolean,
    "bytes": pl.Int64,
    "goodput_bps": pl.Float64,
    "sent_bps": pl.Float64,
    "rtt_smoothed_ms": pl.Float64,
    "cwnd_bytes": pl.Int64,
    "retransmits": pl.Int64,
    "packets": pl.Int64,
    "lost_packets": pl.Int64,
    "jitter_ms": pl.Float64,
}

#: Capacity and delay of a path, by window.
LINKS: Columns = {
    "source": pl.String,
    "t_s": pl.Float64,
    "duration_s": pl.Float64,
    "direction": pl.String,
    "capacity_bps": pl.Float64,
    "delay_ms": pl.Float64,
}

#: Tables of a dish recording under names with the prefix `dish_`; samples also have the dish's track.
DISH: Mapping[str, Columns] = MappingProxyType(
    {f"dish_{name}": {**columns, **TRACK} if name == "samples" else columns for name, columns in _RECORDING.items()}
)

#: Tables by name; a measured Run has those that are not empty.
TABLES: Mapping[str, Columns] = MappingProxyType(
    {"probes": PROBES, "hops": HOPS, "samples": SAMPLES, "links": LINKS, **DISH}
)

#: Table → its column of times [ns since 1970]. Links have none: such traces have no wall clock.
TIME_COLUMNS = {"probes": "unix_ns", "hops": "unix_ns", "samples": "unix_ns", **dict.fromkeys(DISH, "t_unix_ns")}


def filled(name: str, table: pl.DataFrame) -> pl.DataFrame:
    """Return `table` with all columns of the table `name`, ordered and typed; absent columns and NaN become null.

    Raises:
        UserError: An unknown column, or values of another type.
    """
    columns = TABLES[name]
    if unknown := [column for column in table.columns if column not in columns]:
        raise UserError(f"{name}: unknown column {unknown[0]!r}; expected {', '.join(columns)}")
    measured = pl.selectors.float() & pl.selectors.by_name(*table.columns, require_all=False)
    try:
        # An absent column stays a single value: it is not materialised for ten million rows.
        return table.select(
            (pl.col(column) if column in table.columns else pl.lit(None)).cast(kind).alias(column)
            for column, kind in columns.items()
        ).with_columns(measured.fill_nan(None))
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{name}: {str(error).partition(chr(10))[0]}") from None
