"""Values over time in the tables of a measured Run, and their quantiles: what pages and plots of it show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bentpipe.analysis.latency import quantiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from bentpipe.measurements.runs.store import MeasuredRun

MOST_SERIES = 6
"""Largest number of series of a figure, the first ones by name. Chosen here: more lines are not told apart."""
LEVELS = {"min": 0.0, "median": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


@dataclass(frozen=True)
class TimeSeries:
    """A line of a figure, in time order.

    Attributes:
        name: Its name, empty: the only one.
        unix_ns: Times [ns since 1970]; shape (n,).
        values: Values in the unit of the figure, NaN: none, of probes a lost one; shape (n,).
    """

    name: str
    unix_ns: NDArray[np.int64]
    values: NDArray[np.float64]

    def numbers(self) -> dict[str, float | int | None]:
        """Return `count` (known values), `lost` (absent ones), and the quantiles of `LEVELS`; None: no value.

        Example:
            >>> series = TimeSeries("", np.arange(3), np.array([10.0, np.nan, 30.0]))
            >>> numbers = series.numbers()
            >>> numbers["count"], numbers["lost"], numbers["median"]
            (2, 1, 20.0)
        """
        known = np.sort(self.values[np.isfinite(self.values)])
        levels = quantiles(known, list(LEVELS.values())).tolist() if known.size else [None] * len(LEVELS)
        lost = len(self.values) - int(known.size)
        return {"count": int(known.size), "lost": lost, **dict(zip(LEVELS, levels, strict=True))}


@dataclass(frozen=True)
class TimeFigure:
    """A figure over time.

    Attributes:
        key: ``rtt``, ``one_way``, ``hops``, ``throughput``, ``tcp_rtt``, ``retransmits``, ``capacity``, ``delay``,
            ``dish_latency``, ``dish_throughput`` or ``dish_loss``.
        title: Title.
        unit: Unit of its values.
        series: Lines.
        marks_lost: Whether absent values are lost probes.
    """

    key: str
    title: str
    unit: str
    series: tuple[TimeSeries, ...]
    marks_lost: bool = False


def figures_of(run: MeasuredRun) -> list[TimeFigure]:
    """Return the figures of a Run's tables, in a fixed order.

    Those without a value are left out, except RTTs of probes that were all lost.

    Raises:
        UserError: A table is missing, damaged or edited.

    Example:
        >>> import tempfile
        >>> from bentpipe.measurements.runs.store import Source, write_measured
        >>> pings = pl.DataFrame({"unix_ns": [0, 10**9], "target": "pop", "kind": "icmp", "rtt_ms": [30.0, None]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [figure] = figures_of(write_measured(folder, {"probes": pings}, [Source(name="a", format="ping")]))
        >>> figure.key, figure.series[0].values.tolist()
        ('rtt', [30.0, nan])
    """
    figures: list[TimeFigure] = []
    if (probes := run.probes) is not None:
        figures += _of_probes(probes)
    if (hops := run.hops) is not None:
        figures += [_figure("hops", "RTT by hop of traceroutes", "ms", _of_hops(hops))]
    if (samples := run.samples) is not None:
        figures += _of_samples(samples)
    if (links := run.links) is not None:
        ends = links.with_columns((pl.col("t_s") * 1e9 + run.start_unix_ns).round().cast(pl.Int64).alias("unix_ns"))
        for key, title, unit, column in (
            ("capacity", "Capacity of the path", "bit/s", "capacity_bps"),
            ("delay", "One-way delay of the path", "ms", "delay_ms"),
        ):
            figures.append(_figure(key, title, unit, _split(ends, ["source", "direction"], pl.col(column))))
    if (dish := run.table("dish_samples")) is not None:
        figures += _of_dish(dish)
    return [
        figure
        for figure in figures
        if any(np.isfinite(each.values).any() or (figure.key == "rtt" and each.values.size) for each in figure.series)
    ]


def _figure(key: str, title: str, unit: str, series: Iterable[TimeSeries], *, lost: bool = False) -> TimeFigure:
    return TimeFigure(key, title, unit, tuple(series)[:MOST_SERIES], lost)


def _of_probes(probes: pl.DataFrame) -> list[TimeFigure]:
    sent = probes.filter(~pl.col("duplicate"))
    keys = ["site", "target", "kind"]
    one_way = [
        TimeSeries(" ".join(filter(None, [each.name, name])), each.unix_ns, each.values)
        for column, name in (("up_ms", "up"), ("down_ms", "down"))
        for each in _split(sent, keys, pl.col(column))
    ]
    return [
        _figure("rtt", "RTT", "ms", _split(sent, keys, pl.col("rtt_ms")), lost=True),
        _figure("one_way", "One-way delay", "ms", one_way, lost=True),
    ]


def _of_hops(hops: pl.DataFrame) -> list[TimeSeries]:
    """Return a series for each hop, from the last one: the path's RTT, then what is before it."""
    rows = hops.group_by("target", "unix_ns", "ttl", maintain_order=True).agg(pl.col("rtt_ms").median())
    answered = rows.filter(pl.col("rtt_ms").is_not_null())
    several = answered["target"].n_unique() > 1
    series = []
    for (target, ttl), part in answered.partition_by("target", "ttl", as_dict=True, maintain_order=True).items():
        series.append(_series(f"{target} hop {ttl}" if several else f"hop {ttl}", part, pl.col("rtt_ms")))
    ttls = answered.select("target", "ttl").unique(maintain_order=True)["ttl"].to_list()
    ranks = sorted(range(len(series)), key=lambda number: -int(ttls[number]))
    return [series[number] for number in ranks[:MOST_SERIES][::-1]]


def _of_samples(samples: pl.DataFrame) -> list[TimeFigure]:
    kept = samples.filter(~pl.col("omitted").fill_null(value=False))
    middle = pl.col("unix_ns") + (pl.col("duration_s").fill_null(0.0) * 5e8).round().cast(pl.Int64)
    rate = pl.coalesce("goodput_bps", "sent_bps")
    # Flows of a test share the path: their rates add up.
    whole = kept.group_by("source", "test", "direction", middle.alias("unix_ns"), maintain_order=True).agg(
        pl.when(rate.is_not_null().any()).then(rate.sum()).alias("rate_bps"),
        pl.when(pl.col("retransmits").is_not_null().any()).then(pl.col("retransmits").sum()).alias("retransmits"),
        pl.col("rtt_smoothed_ms").mean(),
    )
    keys = ["source", "direction"]
    return [
        _figure("throughput", "Throughput", "bit/s", _split(whole, keys, pl.col("rate_bps"))),
        _figure("tcp_rtt", "Smoothed RTT of TCP", "ms", _split(whole, keys, pl.col("rtt_smoothed_ms"))),
        _figure("retransmits", "Retransmits", "segments", _split(whole, keys, pl.col("retransmits"))),
    ]


def _of_dish(dish: pl.DataFrame) -> list[TimeFigure]:
    rows = dish.rename({"t_unix_ns": "unix_ns"})
    reached = pl.when(pl.col("pop_ping_drop_rate").fill_null(0) < 1).then(pl.col("pop_ping_latency_ms"))

    def named(name: str, value: pl.Expr) -> TimeSeries:
        return _series(name, rows.sort("unix_ns", maintain_order=True), value)

    rates = [named("down", pl.col("downlink_throughput_bps")), named("up", pl.col("uplink_throughput_bps"))]
    return [
        _figure("dish_latency", "Terminal: latency to the PoP", "ms", [named("", reached)]),
        _figure("dish_throughput", "Terminal: whole link", "bit/s", rates),
        _figure("dish_loss", "Terminal: lost pings", "%", [named("", 100 * pl.col("pop_ping_drop_rate"))]),
    ]


def _split(rows: pl.DataFrame, keys: Sequence[str], value: pl.Expr) -> list[TimeSeries]:
    """Return a series for each combination of the keys, named by those in which they differ, or by the direction."""
    rows = rows.sort("unix_ns", maintain_order=True)
    known = rows.select(keys).unique(maintain_order=True)
    differing = [key for key in keys if known[key].n_unique() > 1 or key == "direction"]
    series = []
    for key, part in rows.partition_by(keys, as_dict=True, maintain_order=True).items():
        values = dict(zip(keys, key, strict=True))
        series.append(_series(" ".join(str(values[each] or "unknown") for each in differing), part, value))
    return sorted(series, key=lambda each: each.name)


def _series(name: str, rows: pl.DataFrame, value: pl.Expr) -> TimeSeries:
    table = rows.filter(pl.col("unix_ns").is_not_null()).select(
        "unix_ns", value.cast(pl.Float64).fill_null(np.nan).alias("value")
    )
    return TimeSeries(name, table["unix_ns"].to_numpy(), table["value"].to_numpy())
