"""Figures of measured paths, terminal orientations and months of speed tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import LogNorm

from bentpipe.errors import printable
from bentpipe.plots import style
from bentpipe.plots.canvas import canvas

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from bentpipe.analysis.orientation import Orientation
    from bentpipe.analysis.path import PathShares
    from bentpipe.analysis.throughput import Throughput
    from bentpipe.plots.canvas import AxesLike

#: Colours of segments: those of `style`, with S2 (the bent pipe) the strongest.
_SEGMENTS = {"S1": "#9AA0A6", "S2": "#0072B2", "S3": "#56B4E9", "S4": "#E69F00", "S5": "#CC79A7", "S6": "#009E73"}
_DIRECTIONS = {"down": "#0072B2", "up": "#D55E00"}


def plot_path(result: PathShares, *, ax: AxesLike = None) -> Figure:
    """Plot one-way time by segment, one bar for each probe (T3P, figure 3c). Bars omit negative parts.

    Args:
        result: The result of `bentpipe.analysis.path_segments`.
        ax: Axes to draw into; None: a new figure.

    Example:
        >>> from bentpipe.analysis import path_segments
        >>> from bentpipe.measurements.runs.analysis_input import load_table
        >>> figure = plot_path(path_segments(load_table("hops.parquet", "hops").table))
    """
    bars = result.segments["probe", "target"].unique(maintain_order=True).rows()
    with canvas(ax, size_in=(7.2, 1.2 + 0.28 * max(len(bars), 2))) as drawing:
        (axis,) = drawing.axes
        left = np.zeros(len(bars))
        for segment, colour in _SEGMENTS.items():
            rows = result.segments.filter(segment=segment)["one_way_ms"]
            width = np.maximum(np.nan_to_num(rows.cast(float).to_numpy()), 0.0)
            axis.barh(np.arange(len(bars)), width, left=left, color=colour, label=segment, height=0.7)
            left += width
        axis.set_yticks(np.arange(len(bars)), [printable(f"{probe} → {target}") for probe, target in bars])
        axis.invert_yaxis()
        axis.set_xlabel("One-way time, median [ms]")
        axis.grid(axis="x")
        drawing.legend(axis.get_legend_handles_labels()[0])
    return drawing.figure


def plot_orientation(result: Orientation, *, ax: AxesLike = None) -> Figure:
    """Plot the terminal's orientations by frequency, and their 95th percentile of latency (T3P, figures 4a, 4b).

    Args:
        result: The result of `bentpipe.analysis.orientation_maps`.
        ax: Two axes to draw into, each of which gives room to a colour bar; None: a new figure.

    Example:
        >>> from bentpipe.analysis import orientation_maps
        >>> from bentpipe.measurements.runs.analysis_input import load_table
        >>> figure = plot_orientation(orientation_maps(load_table("orientation.parquet", "orientation").table))
    """
    with canvas(ax, 2, size_in=(9.2, 3.6), columns=2, sharex=True, sharey=True) as drawing:
        axes = drawing.axes
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
            bar = drawing.figure.colorbar(dots, ax=axis, label=label)
            if isinstance(dots.norm, LogNorm):
                style.plain_log_ticks(bar.ax.yaxis)
            axis.set_xlabel("Azimuth [°]")
        axes[0].set_ylabel("Elevation [°]")
    return drawing.figure


def plot_throughput(result: Throughput, *, ax: AxesLike = None) -> Figure:
    """Plot monthly medians with the 5 to 95 % range, and medians by local hour (Huston 2024, figure 2).

    Args:
        result: The result of `bentpipe.analysis.throughput_series`.
        ax: Two axes to draw into; None: a new figure.

    Example:
        >>> from bentpipe.analysis import throughput_series
        >>> from bentpipe.measurements.runs.analysis_input import load_table
        >>> figure = plot_throughput(throughput_series(load_table("speed.parquet", "throughput").table))
    """
    with canvas(ax, 2, size_in=(9.2, 3.4), columns=2, sharey=True) as drawing:
        left, right = drawing.axes
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
        right.set_xlabel("Local hour")
    return drawing.figure
