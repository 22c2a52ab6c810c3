"""What measured round trips say: their distribution, and the scheduler's slots in them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from bentpipe.analysis.tables import series_name
from bentpipe.plots import style
from bentpipe.times import format_utc

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from bentpipe.analysis import Handovers
    from bentpipe.analysis.tables import Floats, Series

#: Round trips drawn at most: more make no other picture, and a file of megabytes.
MOST_POINTS = 20_000
#: Letters in a line of a title; chosen here: what is as wide as the part below it.
TITLE_LETTERS = 80
#: Slots shown one by one.
SLOTS_SHOWN = 16
#: Bins of the folded slot.
FOLDED_BINS = 75
_DOTS = {"marker": ".", "linestyle": "none", "markersize": 1.5, "color": style.DELAY}
_LINE = "#0072B2"


def plot_latency(cdfs: pl.DataFrame) -> Figure:
    """Distributions of round trips, a line each site, target and kind of probe (T3P, figure 2).

    Args:
        cdfs: What `bentpipe.analysis.cdf` returns.
    """
    with style.styled():
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axis = figure.subplots()
        for (site, target, kind), part in cdfs.group_by(["site", "target", "kind"], maintain_order=True):
            label = series_name(site, target, kind) or "round trips"
            axis.plot(part["rtt_ms"].to_numpy(), part["share"].to_numpy(), label=label)
        axis.set_xscale("log")
        axis.set_xlabel("Round-trip time [ms]")
        axis.set_ylabel("Share of replies at or below")
        axis.set_ylim(0, 1)
        axis.grid(axis="x")
        axis.legend(loc="lower right")
    return figure


def plot_handovers(series: Series, found: Handovers) -> Figure:
    """Round trips over some slots with the edges, and all slots laid over each other (Huston 2024, figures 3 and 4).

    Where no slots were found: the beginning of the series, and why not.
    """
    period_s = found.period_s or 15.0
    edge_s = (found.edge_unix_ns - series.start_unix_ns) / 1e9 if found.edge_unix_ns is not None else 0.0
    replies_s, rtt_ms = series.replies()
    with style.styled():
        figure = Figure(figsize=(9.2, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(2, 1))
        inside = replies_s <= edge_s + SLOTS_SHOWN * period_s
        few = _few(int(inside.sum()))
        left.plot(replies_s[inside][few], rtt_ms[inside][few], **_DOTS)
        left.set_title(textwrap.fill(found.reason, TITLE_LETTERS))
        begin = format_utc(series.start_unix_ns) if found.clock_known else "the first probe"
        left.set_xlabel(f"Seconds since {begin}")
        left.set_ylabel("Round-trip time [ms]")
        left.set_ylim(bottom=0)
        if found.found:
            for k in range(SLOTS_SHOWN + 1):
                left.axvline(edge_s + k * period_s, color=style.HANDOVER, linewidth=0.8)
            slot = found.slots.head(SLOTS_SHOWN)
            starts = (slot["start_unix_ns"].to_numpy() - series.start_unix_ns) / 1e9
            medians = slot["median_ms"].to_numpy()
            left.hlines(medians, starts, starts + period_s, color=_LINE, linewidth=1.6, label="median of the slot")
            left.legend(loc="upper right")
            _draw_folded(right, (replies_s - edge_s) % period_s, rtt_ms, period_s)
        else:
            right.set_axis_off()
    return figure


def _draw_folded(axis: Axes, phase_s: Floats, rtt_ms: Floats, period_s: float) -> None:
    """Quantiles of round trips by the time since the edge."""
    at = np.minimum((phase_s / period_s * FOLDED_BINS).astype(int), FOLDED_BINS - 1)
    order = np.argsort(at, kind="stable")
    cells = np.split(rtt_ms[order], np.searchsorted(at[order], np.arange(1, FOLDED_BINS)))
    middle = (np.arange(FOLDED_BINS) + 0.5) * period_s / FOLDED_BINS
    for level, name in ((0.5, "median"), (0.95, "95 %")):
        values = [float(np.quantile(cell, level)) if cell.size else np.nan for cell in cells]
        axis.plot(middle, values, color=_LINE, linestyle="-" if level == 0.5 else "--", label=name)
    axis.set_title("All slots, one over the other")
    axis.set_xlabel("Seconds since the edge")
    axis.set_ylim(bottom=0)
    axis.legend(loc="upper right")


def _few(size: int) -> NDArray[np.int64]:
    """Indices of at most `MOST_POINTS` of so many points, evenly spread."""
    return np.unique(np.linspace(0, max(size - 1, 0), min(size, MOST_POINTS)).astype(np.int64))
