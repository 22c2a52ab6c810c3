"""Figures of measured paths, terminal orientations and months of speed tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from bentpipe.plots import style

if TYPE_CHECKING:
    import polars as pl

    from bentpipe.analysis.orientation import Orientation
    from bentpipe.analysis.path import PathShares
    from bentpipe.analysis.throughput import Throughput

#: Colours of segments: those of `style`, with S2 (the bent pipe) the strongest.
_SEGMENTS = {"S1": "#9AA0A6", "S2": "#0072B2", "S3": "#56B4E9", "S4": "#E69F00", "S5": "#CC79A7", "S6": "#009E73"}
_DIRECTIONS = {"down": "#0072B2", "up": "#D55E00"}


def plot_path(result: PathShares) -> Figure:
    """Plot one-way time by segment, one bar for each probe (T3P, figure 3c). Bars omit negative parts."""
    bars = result.segments["probe", "target"].unique(maintain_order=True).rows()
    with style.styled():
        figure = Figure(figsize=(7.2, 1.2 + 0.28 * max(len(bars), 2)), layout="constrained")
        axis = figure.subplots()
        left = np.zeros(len(bars))
        for segment, colour in _SEGMENTS.items():
            rows = result.segments.filter(segment=segment)["one_way_ms"]
            width = np.maximum(np.nan_to_num(rows.cast(float).to_numpy()), 0.0)
            axis.barh(np.arange(len(bars)), width, left=left, color=colour, label=segment, height=0.7)
            left += width
        axis.set_yticks(np.arange(len(bars)), [f"{probe} → {target}" for probe, target in bars])
        axis.invert_yaxis()
        axis.set_xlabel("One-way time, median [ms]")
        axis.grid(axis="x")
        figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=6)
    return figure


def plot_orientation(result: Orientation) -> Figure:
    """Plot the terminal's orientations by frequency, and their 95th percentile of latency (T3P, figures 4a, 4b)."""
    with style.styled():
        figure = Figure(figsize=(9.2, 3.6), layout="constrained")
        axes = figure.subplots(1, 2, sharex=True, sharey=True)
        for axis, column, label in (
            (axes[0], "share", "Share of samples"),
            (axes[1], "p95_ms", "95th percentile of latency [ms]"),
        ):
            known = result.bins.drop_nulls(column)
            dots = axis.scatter(
                known["azimuth_deg"].to_numpy(),
                known["elevation_deg"].to_numpy(),
                c=known[column].to_numpy(),
                marker="s",
                s=14,
                cmap="viridis",
                norm="log" if column == "share" and known.height else None,
            )
            figure.colorbar(dots, ax=axis, label=label)
            axis.set_xlabel("Azimuth [deg]")
        axes[0].set_ylabel("Elevation [deg]")
    return figure


def plot_throughput(result: Throughput) -> Figure:
    """Plot monthly medians with the 5 to 95 % range, and medians by local hour (Huston 2024, figure 2)."""
    with style.styled():
        figure = Figure(figsize=(9.2, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        months = result.months["month"].unique().sort().to_list()
        for direction in result.summary["direction"]:
            colour = _DIRECTIONS.get(str(direction), style.DELAY)
            month: pl.DataFrame = result.months.filter(direction=direction)
            at = [months.index(name) for name in month["month"]]
            low, middle, high = (month[name].to_numpy() * 1e-6 for name in ("p5_bps", "median_bps", "p95_bps"))
            left.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
            left.plot(at, middle, color=colour, marker="o", label=str(direction))
            hour = result.hours.filter(direction=direction)
            right.plot(hour["hour"].to_numpy(), hour["median_bps"].to_numpy() * 1e-6, color=colour, marker="o")
        left.set_xticks(range(len(months)), months, rotation=45, ha="right")
        left.set_ylabel("Throughput [Mbit/s]")
        left.set_ylim(bottom=0)
        left.set_title("By month: median, 5 to 95 %")
        left.legend()
        right.set_title("By local hour: median")
        right.set_xlabel("Hour")
    return figure
