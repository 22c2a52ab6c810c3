"""Read a Profile from the JSON of iperf3 (``-J`` or ``--json-stream``): throughput per interval, and RTTs.

`bentpipe.measurements.readers.iperf3` parses the files.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from bentpipe.errors import UserError
from bentpipe.files import read_unpacked
from bentpipe.measurements.readers import iperf3
from bentpipe.measurements.readers.measurement import ReadHints
from bentpipe.profiles.build import Points, Provenance, Side, single_hop_profile
from bentpipe.profiles.convert.reading import Converted, Paths, ReadOptions, one_path

#: Intervals whose ends are this close are neighbours [s]; iperf3 prints microseconds.
_TOUCH_S = 0.001


def read_iperf3(paths: Paths, options: ReadOptions) -> Converted:
    """Read a Profile from one iperf3 test: the throughput of all streams is the capacity of the tested direction.

    A transfer never exceeds the capacity but may stay below it: the result is the throughput of one test, with its
    controller and queue (``includes`` records that). Data that the client receives is down, otherwise up; the other
    direction has no limit. The delay is half of the sender's RTTs if the file has them (only a sending client does),
    otherwise `options.delay_s`. Times between intervals, and intervals marked as omitted, are gaps.

    Raises:
        UserError: Not an iperf3 file, a failed test, no interval, both directions at once, or no delay; the message
            names the place.
    """
    path = one_path(paths, "iperf3 JSON")
    rows = iperf3.measure(read_unpacked(path), str(path), ReadHints()).tables["samples"]
    rows = rows.filter(~pl.col("omitted"))
    directions = rows["direction"].unique().to_list()
    if len(directions) != 1:
        problem = "both directions at once" if directions else "no interval that counts"
        raise UserError(f"{problem}", where=str(path), expected="a test of one direction")
    for name in ("goodput_bps", "sent_bps", "rtt_smoothed_ms"):
        if name not in rows.columns:
            rows = rows.with_columns(pl.lit(None, pl.Float64).alias(name))
    # Streams of a test are read at the same moments but for some microseconds.
    intervals = (
        rows.with_columns((pl.col("t_s") - pl.col("duration_s")).alias("begin_s"))
        .with_columns(pl.int_range(pl.len()).over("flow").alias("place"))
        .group_by("place", maintain_order=True)
        .agg(
            pl.col("begin_s").min(),
            pl.col("t_s").max().alias("end_s"),
            pl.coalesce("goodput_bps", "sent_bps").sum().alias("bps"),
            pl.col("rtt_smoothed_ms").filter(pl.col("rtt_smoothed_ms") > 0).median().alias("rtt_ms"),
            pl.col("unix_ns").min(),
        )
    )
    capacity, delay, notes = _series(intervals)
    if delay is None:
        if options.delay_s is None:
            raise UserError("has no RTTs", where=str(path), expected="a one-way delay (`delay`), as 20ms")
        delay = Points.constant(options.delay_s)
    tested = Side(delay_s=delay, capacity_bps=capacity, queue=options.limit())
    free = Side(delay_s=delay, queue=options.limit())
    up = directions == ["up"]
    notes.append(f"{'down' if up else 'up'} was not tested: no capacity limit there")
    start_ns = int(rows["unix_ns"][0] - round(float(intervals["begin_s"][0]) * 1e9))
    profile = single_hop_profile(
        name=options.name_for(path),
        hop="measured",
        start_unix_ns=start_ns if options.start_unix_ns is None else options.start_unix_ns,
        duration_s=float(intervals["end_s"][-1]),
        basis="half_rtt",
        provenance=Provenance(
            "measured", f"iperf3 in {options.name_for(path)}", ("congestion_control", "queueing", "mac_jitter")
        ),
        up=tested if up else free,
        down=free if up else tested,
    )
    return Converted(profile, notes)


def _series(intervals: pl.DataFrame) -> tuple[Points, Points | None, list[str]]:
    """Return capacity and delay of the intervals, with a row for every gap between them, and notes."""
    rows: list[tuple[float, float, bool]] = []
    end = 0.0
    gaps = 0
    for begin_s, end_s, bps in intervals.select("begin_s", "end_s", "bps").iter_rows():
        start = max(begin_s, 0.0)
        if start - end > _TOUCH_S:
            rows.append((end, rows[-1][1] if rows else bps, False))
            gaps += 1
        rows.append((max(start, rows[-1][0] + 1e-6) if rows else start, bps, True))
        end = end_s
    known = intervals.drop_nulls("rtt_ms")
    capacity = Points.of(*zip(*rows, strict=True))
    delay_s = np.maximum(known["begin_s"].to_numpy(), 0.0), known["rtt_ms"].to_numpy() / 2e3
    delay = Points.of(*delay_s) if known.height else None
    return capacity, delay, [f"{gaps} gap(s) between intervals"] if gaps else []
