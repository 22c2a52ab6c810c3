"""Capacity of a measured Profile: a rate, a trace or a saturation test, placed on the time axis of the pings."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from bentpipe.errors import UserError, shown
from bentpipe.profiles.build import Points
from bentpipe.profiles.convert.iperf3 import read_iperf3
from bentpipe.profiles.convert.mahimahi import read_mahimahi
from bentpipe.profiles.convert.reading import ReadOptions
from bentpipe.profiles.measured.envelope import envelope
from bentpipe.profiles.parquet import read_profile
from bentpipe.profiles.path import PathView, held
from bentpipe.scenarios.units import parse_rate_bps

if TYPE_CHECKING:
    from bentpipe._native import Profile

Way = Literal["up", "down"]

#: Intervals with a gap of at most this [s] are adjacent; chosen here: programs print milliseconds.
TOUCH_S = 0.0015
#: Largest number of points of a repeated capacity; chosen here: more than a day of tenths of a second.
MAX_POINTS = 2_000_000


@dataclass(frozen=True)
class Capacity:
    """Capacity of one direction or both.

    Attributes:
        up, down: Series [bit/s] from its own start; None: unknown.
        duration_s: Length of the measurement [s]; None: constant for all times.
        start_unix_ns: Start of the measurement [ns since 1970]; None: no wall clock.
        source: Source, in a few words.
        achieved: Whether it is the throughput of one transfer, with its controller and queue, rather than the capacity
            of the path.
    """

    up: Points | None
    down: Points | None
    duration_s: float | None
    start_unix_ns: int | None
    source: str
    achieved: bool = False


def read_capacity(text: str) -> Capacity:
    """Parse the value of ``--capacity``: ``[up=|down=]VALUE``.

    VALUE is a rate (``100mbit``; default: both directions) or a file: JSON of ``iperf3 -J`` (the tested direction), a
    packet-delivery trace (default: down), or a Profile (both).

    Raises:
        UserError: VALUE is none of these, the file does not read, or it has no capacity in the given direction.

    Example:
        >>> float(read_capacity("down=100mbit").down.value[0])
        100000000.0
    """
    direction, _, value = text.rpartition("=")
    if direction not in ("", "up", "down"):
        raise UserError(f"{shown(text)}: expected up or down before =", where="capacity")
    if Path(value).is_file():
        capacity = _read_file(value, "up" if direction == "up" else "down")
    else:
        try:
            rate = Points.constant(parse_rate_bps(value, "capacity"))
        except UserError as error:
            raise UserError(f"{shown(value)} is neither a file nor a rate such as 100mbit", where="capacity") from error
        capacity = Capacity(rate, rate, None, None, value)
    if direction == "up":
        capacity = replace(capacity, down=None)
    elif direction == "down":
        capacity = replace(capacity, up=None)
    if capacity.achieved and all(way is None or not (way.value > 0).any() for way in (capacity.up, capacity.down)):
        raise UserError(f"{value}: the test carried nothing", where="capacity", expected="an interval above 0 bit/s")
    if capacity.up is None and capacity.down is None:
        raise UserError(f"{value} has no capacity {direction}; leave {direction}= out", where="capacity")
    return capacity


def _read_file(path: str | os.PathLike[str], direction: Way) -> Capacity:
    with Path(path).open("rb") as file:
        head = file.read(64).lstrip()
    if head.startswith(b"PAR1"):
        return capacity_from_profile(read_profile(path), clock=True)
    options = ReadOptions(delay_s=0.0, direction=direction)
    if head.startswith(b"{"):
        return replace(capacity_from_profile(read_iperf3([path], options).profile, clock=True), achieved=True)
    if head[:1].isdigit():
        return capacity_from_profile(read_mahimahi([path], options).profile, clock=False)
    raise UserError(
        f"{path} is neither JSON of `iperf3 -J`, nor a packet-delivery trace (a time in ms a line), nor a Profile",
        where="capacity",
    )


def capacity_from_profile(profile: Profile, *, clock: bool) -> Capacity:
    """Return the capacity of a Profile's path; `clock`: whether its start is a wall clock's."""
    view = PathView(profile)

    def way(direction: Way) -> Points | None:
        steps, valid = view.capacity(direction), view.valid(direction)
        if np.isinf(steps.value).all():
            return None
        at = np.unique(np.concatenate([steps.t_s, valid.t_s]))
        value = held(steps.t_s, steps.value, at)
        limited = np.isfinite(value)
        # Times without a limit need some value: the last limited one, or the first.
        last = np.maximum.accumulate(np.where(limited, np.arange(at.size), int(limited.argmax())))
        return Points.of(at, value[last], limited & (held(valid.t_s, valid.value, at) > 0))

    start = profile.start_unix_ns if clock else None
    description = json.loads(profile.metadata_json())["provenance"]["description"]
    return Capacity(way("up"), way("down"), profile.duration_s, start, description)


def capacities_from_tables(
    samples: pl.DataFrame | None, links: pl.DataFrame | None, timeless: Collection[str] = ()
) -> list[Capacity]:
    """Return the capacities in the tables of a measured Run, by source and direction; link capacities come first.

    Args:
        samples: Throughput of transfers by interval (`unix_ns` of its begin, `duration_s`, `direction`, `source`,
            `goodput_bps` or `sent_bps`, `omitted`); streams of one test are added.
        links: Capacity by window of a trace (`t_s` of its end, `duration_s`, `direction`, null: down,
            `source`, `capacity_bps`).
        timeless: Sources whose times are not those of a wall clock.
    """
    capacities = []
    if links is not None:
        rows = links.drop_nulls(["capacity_bps", "t_s", "duration_s"])
        rows = rows.with_columns(pl.col("direction").fill_null("down"), at_s=pl.col("t_s") - pl.col("duration_s"))
        for (direction, source), part in sorted(rows.partition_by("direction", "source", as_dict=True).items()):
            one = part.sort("at_s").select("at_s", lasts_s="duration_s", bps="capacity_bps")
            capacities.append(_capacity_from_rows(one, str(direction), str(source), None, achieved=False))
    if samples is not None:
        used = samples.filter(~pl.col("omitted").fill_null(value=False))
        used = used.with_columns(goodput_bps=pl.coalesce("goodput_bps", "sent_bps"))
        used = used.drop_nulls(["goodput_bps", "direction", "unix_ns", "duration_s"])
        for (direction, source), part in sorted(used.partition_by("direction", "source", as_dict=True).items()):
            whole = _sum_streams(part)
            first = int(whole["unix_ns"][0])
            one = whole.with_columns(at_s=(pl.col("unix_ns") - first) / 1e9)
            begin = None if source in timeless else first
            capacities.append(_capacity_from_rows(one, str(direction), str(source), begin, achieved=True))
    return capacities


def _sum_streams(intervals: pl.DataFrame) -> pl.DataFrame:
    """Return the summed rate of all streams in each interval of a test: `bps` and `lasts_s`, by `unix_ns`.

    Streams begin an interval some milliseconds apart: rows within half an interval belong together.
    """
    if "test" not in intervals.columns:
        intervals = intervals.with_columns(test=pl.lit(0))
    begins = pl.col("unix_ns").diff().over("test").fill_null(1 << 62) > pl.col("duration_s").median().over("test") * 5e8
    return (
        intervals.sort("test", "unix_ns", maintain_order=True)
        .with_columns(interval=begins.cum_sum().over("test"))
        .group_by("test", "interval")
        .agg(
            pl.col("unix_ns").min(),
            pl.col("goodput_bps").sum().alias("bps"),
            pl.col("duration_s").max().alias("lasts_s"),
        )
        .sort("unix_ns")
    )


def _capacity_from_rows(
    rows: pl.DataFrame, direction: str, source: str, begin_unix_ns: int | None, *, achieved: bool
) -> Capacity:
    at, lasts, bps = (rows[name].to_numpy() for name in ("at_s", "lasts_s", "bps"))
    ends = at + lasts
    # An unknown row at the end of each interval that the next one does not follow at once.
    hole = np.append(at[1:] - np.maximum.accumulate(ends)[:-1] > TOUCH_S, True)
    t = np.concatenate([at - at[0], ends[hole] - at[0]])
    order = np.argsort(t, kind="stable")
    series = Points.of(
        t[order],
        np.concatenate([bps, bps[hole]])[order],
        np.concatenate([np.ones(at.size, bool), np.zeros(int(hole.sum()), bool)])[order],
    )
    keep = np.concatenate([[True], np.diff(series.t_s) > 0])
    series = Points.of(series.t_s[keep], series.value[keep], series.valid[keep])
    up, down = (series, None) if direction == "up" else (None, series)
    return Capacity(up, down, float(ends.max() - at[0]), begin_unix_ns, source, achieved)


@dataclass(frozen=True)
class PlacedCapacity:
    """Capacity of one direction on the time axis of the pings.

    Attributes:
        series: Capacity [bit/s]; None: unknown for this direction.
        used: The capacities it was made of.
        notes: Lines about assumptions.
        outage_s: Begin of an outage that lasts to the end [s since the start]; None: no such outage.
    """

    series: Points | None
    used: Sequence[Capacity] = ()
    notes: Sequence[str] = ()
    outage_s: float | None = None


def place_capacity(
    capacities: Sequence[Capacity],
    direction: Way,
    start_unix_ns: int,
    duration_s: float,
    period_s: float | None,
    *,
    clock_known: bool = True,
) -> PlacedCapacity:
    """Place the capacity of a direction on the time axis of the pings.

    What was measured while the pings were lies where it was, and is not known outside; of two at one time the first
    counts. If nothing was, or the first that speaks of the direction holds for ever, that one
    counts, and is repeated from the start on, moved by whole slots if both have a clock and there are slots.

    Args:
        capacities: The candidates, the preferred one first.
        direction: Direction.
        start_unix_ns: The Profile's start.
        duration_s: The Profile's length.
        period_s: Length of a slot [s]; None: no slots.
        clock_known: Whether the start is a wall clock's; otherwise no capacity overlaps the pings.
    """
    each = [(one, one.up if direction == "up" else one.down) for one in capacities]
    candidates = [(one, _path_capacity(one, series)) for one, series in each if series is not None]
    usable = [(one, series) for one, series in candidates if series is not None]
    if not usable:
        return PlacedCapacity(
            None, notes=[f"capacity {direction}: no test carried anything; no limit"] if candidates else []
        )
    begins = {
        place: (one.start_unix_ns - start_unix_ns) / 1e9
        for place, (one, _) in enumerate(usable)
        if clock_known and one.start_unix_ns is not None
    }
    capacity, series = usable[0]
    overlapping = [
        (one, _shifted(points, begins[place], one.duration_s))
        for place, (one, points) in enumerate(usable)
        if place in begins and one.duration_s is not None and -one.duration_s < begins[place] < duration_s
    ]
    # Tests of a day in one file may all have been at other hours.
    overlapping = [(one, points) for one, points in overlapping if _cut(points, duration_s).valid.any()]
    if capacity.duration_s is None:
        return _placed(direction, series, [capacity], [])
    ignored = len(usable) - max(1, len(overlapping))
    over = [f"{ignored} other(s) ignored"] if ignored else []
    if overlapping:
        over = [f"{over[0]}: not known to overlap the pings"] if over else []
        lines = ["measured at the time of the pings; unknown where it was not measured", *over]
        whole = _first_known([points for _, points in overlapping])
        return _placed(direction, _cut(whole, duration_s), [one for one, _ in overlapping], lines)
    length_s, offset_s = capacity.duration_s, 0.0
    assumption = "assumed to repeat from the start on"
    if 0 in begins and period_s is not None and length_s >= period_s:
        length_s = length_s // period_s * period_s
        offset_s = begins[0] % period_s - period_s
        assumption = "assumed to repeat, shifted by whole slots"
    lines = [f"not known to overlap the pings ({length_s:g} s); {assumption}", *over]
    copies = int(np.ceil((duration_s - offset_s) / length_s))
    if copies * series.t_s.size > MAX_POINTS:
        raise UserError(
            f"capacity {direction}: {capacity.source} lasts {length_s:g} s and would repeat {copies} times",
            expected=f"at most {MAX_POINTS} points in all: give a longer test, or a rate such as 100mbit",
        )
    return _placed(direction, _cut(_repeated(series, offset_s, length_s, copies), duration_s), [capacity], lines)


def _path_capacity(one: Capacity, series: Points) -> Points | None:
    """Return the capacity of the path; None: a transfer carried nothing."""
    return envelope(series, one.duration_s) if one.achieved and one.duration_s is not None else series


def _placed(direction: Way, series: Points, used: Sequence[Capacity], lines: Sequence[str]) -> PlacedCapacity:
    sources = ", ".join(one.source for one in used[:3]) + (f" and {len(used) - 3} more" if used[3:] else "")
    if any(one.achieved for one in used):
        sources += ", the throughput of one transfer in bins of 1 s or more, interpolated over its stalls"
    positive = np.flatnonzero(series.value > 0)
    if not positive.size:
        raise UserError(
            f"capacity {direction}: {sources}: is 0 at all times of the pings", expected="a capacity above 0, or none"
        )
    outage_s = None
    after = int(positive[-1]) + 1
    if after < series.t_s.size:
        # Packets would wait for ever: a measured end at 0 becomes an outage, otherwise the last capacity holds.
        value, known = series.value.copy(), series.valid[after:]
        value[after:] = value[after - 1]
        series = Points.of(series.t_s, value, series.valid)
        if known.any():
            outage_s = float(series.t_s[after + int(known.argmax())])
            lines = [*lines, f"it ends at 0: an outage from {outage_s:g} s to the end"]
    return PlacedCapacity(series, used, [f"capacity {direction}: {line}" for line in (sources, *lines)], outage_s)


def _first_known(each: Sequence[Points]) -> Points:
    """Return the value of the first series that is known, at each time."""
    at = np.unique(np.concatenate([series.t_s for series in each]))
    value, known = held(each[0].t_s, each[0].value, at), held(each[0].t_s, each[0].valid.astype(np.float64), at) > 0
    for series in each[1:]:
        newly_known = ~known & (held(series.t_s, series.valid.astype(np.float64), at) > 0)
        value = np.where(newly_known, held(series.t_s, series.value, at), value)
        known |= newly_known
    return Points.of(at, value, known)


def _shifted(series: Points, offset_s: float, length_s: float) -> Points:
    """Return the series shifted by `offset_s`, unknown before it and after `length_s`."""
    inside = series.t_s < length_s
    t = np.concatenate([series.t_s[inside] + offset_s, [offset_s + length_s]])
    value = np.concatenate([series.value[inside], series.value[inside][-1:]])
    valid = np.concatenate([series.valid[inside], [False]])
    if offset_s > 0:
        t, value = np.concatenate([[0.0], t]), np.concatenate([value[:1], value])
        valid = np.concatenate([[False], valid])
    return Points.of(t, value, valid)


def _repeated(series: Points, offset_s: float, length_s: float, copies: int) -> Points:
    inside = series.t_s < length_s
    starts = offset_s + np.arange(copies) * length_s
    return Points.of(
        (starts[:, None] + series.t_s[inside][None, :]).ravel(),
        np.tile(series.value[inside], copies),
        np.tile(series.valid[inside], copies),
    )


def _cut(series: Points, duration_s: float) -> Points:
    """Return the part from 0 to `duration_s`, rounded to nanoseconds, with the value at 0."""
    before = max(int(np.searchsorted(series.t_s, 0.0, side="right")) - 1, 0)
    t = np.round(np.maximum(series.t_s[before:], 0.0), 9)
    value, valid = series.value[before:], series.valid[before:]
    keep = (t < duration_s) & np.concatenate([[True], np.diff(t) > 0])
    return Points.of(t[keep], np.round(value[keep]), valid[keep])
