"""Figures of measured RTTs: their distribution, and the scheduler's slots in them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import LogFormatter, ScalarFormatter

from bentpipe.analysis.tables import series_name
from bentpipe.plots import style
from bentpipe.plots.canvas import canvas
from bentpipe.times import format_utc

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from bentpipe.analysis.handovers import Handovers
    from bentpipe.analysis.tables import Floats, Series
    from bentpipe.plots.canvas import AxesLike

#: Largest number of RTTs drawn: more do not change the figure but make a file of megabytes.
MOST_POINTS = 20_000
#: Characters in a line of a title. Chosen here: as wide as the panel below it.
TITLE_LETTERS = 80
#: Number of slots shown individually.
SLOTS_SHOWN = 16
#: Number of bins of the folded slot.
FOLDED_BINS = 75
_DOTS: dict[str, Any] = {"marker": ".", "linestyle": "none", "markersize": 1.5, "color": style.DELAY}
_LINE = "#0072B2"


def plot_latency(cdfs: pl.DataFrame, *, ax: AxesLike = None) -> Figure:
    """Plot distributions of RTTs, one line for each site, target and kind of probe (T3P, figure 2).

    Args:
        cdfs: The result of `bentpipe.analysis.cdf`.
        ax: Axes to draw into; None: a new figure.

    Example:
        >>> from bentpipe.analysis import cdf
        >>> from bentpipe.measurements.runs.analysis_input import load_table
        >>> figure = plot_latency(cdf(load_table("ping.txt", "probes").table))
    """
    with canvas(ax, size_in=(6.4, 3.6)) as drawing:
        (axis,) = drawing.axes
        for (site, target, kind), part in cdfs.group_by(["site", "target", "kind"], maintain_order=True):
            label = series_name(site, target, kind) or "RTTs"
            axis.plot(part["rtt_ms"].to_numpy(), part["share"].to_numpy(), label=label)
        style.log_scale(axis, "x")
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.xaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(2, 0.5)))
        axis.set_title("RTT by series")
        axis.set_xlabel("RTT [ms]")
        axis.set_ylabel("Share of replies at or below")
        axis.set_ylim(0, 1)
        axis.grid(axis="x")
        axis.legend(loc="lower right")
    return drawing.figure


def plot_handovers(series: Series, result: Handovers, *, ax: AxesLike = None) -> Figure:
    """Plot RTTs over some slots with their edges, and all slots folded (Huston 2024, figures 3 and 4).

    Without detected slots: the start of the series, with the reason as title; the second axes stay empty.

    Args:
        series: The analyzed series.
        result: The result of `bentpipe.analysis.analyze_handovers`.
        ax: Two axes to draw into; None: a new figure.

    Example:
        >>> from bentpipe.analysis import analyze_handovers
        >>> from bentpipe.analysis.tables import only_series
        >>> from bentpipe.measurements.runs.analysis_input import load_table
        >>> table = load_table("ping.txt", "probes").table
        >>> figure = plot_handovers(only_series(table), analyze_handovers(table))
    """
    period_s = result.period_s or 15.0
    # Whole seconds if the clock is known: the axis is labelled in seconds.
    zero_ns = series.start_unix_ns // 10**9 * 10**9 if result.clock_known else series.start_unix_ns
    before_s = (series.start_unix_ns - zero_ns) / 1e9
    edge_s = (result.edge_unix_ns - zero_ns) / 1e9 if result.edge_unix_ns is not None else before_s
    replies_s, rtt_ms = series.replies()
    replies_s = replies_s + before_s
    panels = 2 if result.found or ax is not None else 1
    ratios = (2, 1)[:panels]
    with canvas(ax, 2, size_in=(9.2, 3.4), columns=panels, width_ratios=ratios) as drawing:
        left = drawing.axes[0]
        inside = replies_s <= edge_s + SLOTS_SHOWN * period_s
        few = _few(int(inside.sum()))
        left.plot(replies_s[inside][few], rtt_ms[inside][few], **_DOTS)
        name = series_name(series.site, series.target, series.kind)
        prefix = f"{name}: " if name else ""
        letters = TITLE_LETTERS if result.found else TITLE_LETTERS * 3 // 2
        left.set_title(textwrap.fill(prefix + result.reason, letters))
        begin = format_utc(zero_ns) if result.clock_known else "the first probe"
        last_s = float(replies_s[-1]) if replies_s.size else 0.0
        part = "" if inside.all() else f" (the first {edge_s + SLOTS_SHOWN * period_s:.0f} of {last_s:.0f} s)"
        left.set_xlabel(f"Seconds since {begin}{part}")
        left.set_ylabel("RTT [ms]")
        left.set_ylim(bottom=0)
        if result.found:
            for k in range(SLOTS_SHOWN + 1):
                label = None if k else "reconfiguration"
                left.axvline(edge_s + k * period_s, color=style.HANDOVER, linewidth=0.8, label=label)
            slot = result.slots.head(SLOTS_SHOWN)
            starts = (slot["start_unix_ns"].to_numpy() - zero_ns) / 1e9
            medians = slot["median_ms"].to_numpy()
            visible = np.maximum(starts, before_s)  # the first slot began before the series
            left.hlines(medians, visible, starts + period_s, color=_LINE, linewidth=1.6, label="median of the slot")
            left.legend(loc="upper right")
            _draw_folded(drawing.axes[1], (replies_s - edge_s) % period_s, rtt_ms, period_s)
        else:
            for axis in drawing.axes[1:]:
                axis.set_axis_off()
    return drawing.figure


def _draw_folded(axis: Axes, phase_s: Floats, rtt_ms: Floats, period_s: float) -> None:
    """Draw quantiles of RTTs by the time since the slot's edge."""
    at = np.minimum((phase_s / period_s * FOLDED_BINS).astype(int), FOLDED_BINS - 1)
    order = np.argsort(at, kind="stable")
    cells = np.split(rtt_ms[order], np.searchsorted(at[order], np.arange(1, FOLDED_BINS)))
    middle = (np.arange(FOLDED_BINS) + 0.5) * period_s / FOLDED_BINS
    for level, name in ((0.5, "median"), (0.95, "95th percentile")):
        values = [float(np.quantile(cell, level)) if cell.size else np.nan for cell in cells]
        axis.plot(middle, values, color=_LINE, linestyle="-" if level == 0.5 else "--", label=name)
    axis.set_title("All slots, folded")
    axis.set_xlabel("Seconds since the edge")
    axis.set_ylabel("RTT [ms]")
    axis.set_ylim(bottom=0, top=1.25 * axis.get_ylim()[1])  # the curve rises at both edges
    axis.legend(loc="upper center", ncols=2)


def _few(size: int) -> NDArray[np.int64]:
    """Return indices of at most `MOST_POINTS` of `size` points, evenly spread."""
    return np.unique(np.linspace(0, max(size - 1, 0), min(size, MOST_POINTS)).astype(np.int64))
