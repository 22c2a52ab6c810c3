"""What stands out of measured RTTs: spikes that last, and loss episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, ScalarFormatter

from bentpipe.plots import style
from bentpipe.times import format_utc

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes

    from bentpipe.analysis.loss import LossEpisodes
    from bentpipe.analysis.spikes import Spikes
    from bentpipe.analysis.tables import Floats, Series

#: Stretches of a series that its RTTs are drawn in: the range and the median of each, so that a day of pings is
#: no larger a file than a minute, and no spike falls between two points.
STRETCHES = 1500
#: Lasting spikes and silences shaded at most; chosen here: more are one shade.
MOST_SHADED = 2000
#: Longest series whose axis is in seconds, and in minutes [s].
IN_SECONDS_S, IN_MINUTES_S = 600.0, 4 * 3600.0
_LINE = "#0072B2"
_SPIKE = "#D55E00"


def plot_spikes(series: Series, found: Spikes, period_s: float | None = None) -> Figure:
    """RTTs over time with the line of the spikes and those that last, and how long these are (T3P, figure 3a).

    Args:
        series: The series that `found` is of.
        found: What `bentpipe.analysis.latency_spikes` returns.
        period_s: Length of a slot [s], whose multiples are marked; None: there are none.
    """
    replies_s, rtt_ms = series.replies()
    lasting = found.spikes.filter("lasting")
    with style.styled():
        figure = Figure(figsize=(9.2, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(2, 1))
        unit, unit_s = _time_unit(series.duration_s)
        _draw_range(left, replies_s / unit_s, rtt_ms)
        if found.threshold_ms is not None:
            left.axhline(found.threshold_ms, color=_SPIKE, linestyle="--", label="twice the median")
            left.legend(loc="upper right")
        begins_s = _since(lasting, series)
        _shade(left, begins_s[:MOST_SHADED], lasting["duration_s"].head(MOST_SHADED), series.duration_s, unit_s)
        left.set_title(f"{found.spikes.height} spikes, of which {lasting.height} last")
        left.set_xlabel(f"{unit} since {format_utc(series.start_unix_ns)}")
        left.set_ylabel("RTT [ms]")
        left.set_ylim(bottom=0)
        durations = lasting["duration_s"].to_numpy()
        if durations.size:
            right.hist(durations, bins=np.arange(0, durations.max() + 4, 2.0), color=_SPIKE)
            if period_s is not None:
                for multiple in range(1, int(durations.max() / period_s) + 2):
                    right.axvline(multiple * period_s, color=style.HANDOVER, linewidth=0.8)
            right.set_title("Those that last")
            right.set_xlabel("Duration [s]")
            right.set_ylabel("Number")
            right.yaxis.set_major_locator(MaxNLocator(integer=True))
        else:
            right.set_axis_off()
    return figure


def plot_loss(series: Series, found: LossEpisodes, period_s: float | None = None) -> Figure:
    """Loss episodes over time, how many probes they take, and at which second of the slot probes are lost.

    Where none was lost the first part says so, and is the only one.

    Args:
        series: The series that `found` is of.
        found: What `bentpipe.analysis.loss_episodes` returns.
        period_s: Length of a slot [s] that `found` was made with; None: there are none, and the last part says so.
    """
    episodes = found.episodes
    with style.styled():
        figure = Figure(figsize=(10.4, 3.4), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=(2, 1, 1))
        unit, unit_s = _time_unit(series.duration_s)
        left.plot(
            _since(episodes, series) / unit_s, episodes["probes"].to_numpy(), ".", color=_LINE, markersize=4, zorder=3
        )
        silences = found.silences.head(MOST_SHADED)
        _shade(left, _since(silences, series), silences["duration_s"], series.duration_s, unit_s)
        silent = f"; {found.silences.height} silences" if found.silences.height else ""
        left.set_title(f"{found.lost} of {found.probes} probes lost in {episodes.height} episodes{silent}")
        left.set_xlabel(f"{unit} since {format_utc(series.start_unix_ns)}")
        left.set_ylabel("Probes lost in a row")
        left.set_xlim(0, max(series.duration_s, 1e-9) / unit_s)
        if not episodes.height:
            unwritten = "\n(in silences, shaded, some may be that were not written)" if silences.height else ""
            _say(left, f"no row is a lost probe{unwritten}")
            left.set_yticks([])
            for axes in (middle, right):
                axes.set_axis_off()
            return figure
        length, count = np.unique(episodes["probes"].to_numpy(), return_counts=True)
        at_least = np.cumsum(count[::-1])[::-1] / count.sum()
        middle.plot(length, at_least, color=_LINE, marker=".", drawstyle="steps-post")
        style.log_scale(middle, "x")
        style.log_scale(middle, "y")
        for axis in (left.yaxis, middle.xaxis):
            axis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
            axis.set_major_formatter(ScalarFormatter())
        middle.xaxis.set_minor_formatter(NullFormatter())
        middle.set_title("How long episodes are")
        middle.set_xlabel("Probes lost in a row")
        middle.set_ylabel("Share of episodes as long or longer")
        right.set_title("Where in the slot")
        if found.by_phase:
            shares = np.array([np.nan if share is None else share for share in found.by_phase])
            right.bar(np.arange(shares.size) + 0.5, 100 * shares, width=0.9, color=_LINE)
            right.set_xlim(0, period_s or shares.size)
            right.set_xlabel("Seconds since the edge")
            right.set_ylabel("Probes lost [%]")
        else:
            _say(right, "no slots found")
            right.set_axis_off()
    return figure


def _say(axes: Axes, what: str) -> None:
    """Says in the middle of a part why it is empty."""
    axes.text(0.5, 0.5, what, ha="center", va="center", transform=axes.transAxes)


def _shade(axis: Axes, begins_s: Floats, durations_s: pl.Series, length_s: float, unit_s: float) -> None:
    """Shade stretches of a series of `length_s`, none narrower than can be seen."""
    ends_s = begins_s + durations_s.to_numpy()
    spans = zip(begins_s.tolist(), ends_s.tolist(), strict=True)
    for start_s, end_s in style.widened(spans, length_s):
        axis.axvspan(start_s / unit_s, end_s / unit_s, color=style.OUTAGE, linewidth=0, zorder=0)


def _draw_range(axis: Axes, at: Floats, rtt_ms: Floats) -> None:
    """Least to greatest of each of `STRETCHES`, and their medians; of few replies each."""
    if rtt_ms.size <= 2 * STRETCHES:
        axis.plot(at, rtt_ms, ".", markersize=2, color=_LINE)
        return
    parts = np.array_split(np.arange(rtt_ms.size), STRETCHES)
    # A stretch is so many replies, not so much time: across a gap there is none to draw.
    middle = np.array([at[part].mean() for part in parts])
    low, high = (np.array([f(rtt_ms[part]) for part in parts]) for f in (np.min, np.max))
    axis.vlines(middle, low, high, color=style.DELAY, linewidth=0.6, label="range")
    axis.plot(middle, [np.median(rtt_ms[part]) for part in parts], ".", markersize=1.5, color=_LINE, label="median")


def _time_unit(duration_s: float) -> tuple[str, float]:
    """What a time axis of so long a series counts, and its length [s]."""
    if duration_s <= IN_SECONDS_S:
        return "Seconds", 1.0
    return ("Minutes", 60.0) if duration_s <= IN_MINUTES_S else ("Hours", 3600.0)


def _since(rows: pl.DataFrame, series: Series) -> Floats:
    """Starts of episodes after the series' [s]."""
    found: Floats = (rows["start_unix_ns"].to_numpy() - series.start_unix_ns) / 1e9
    return found
