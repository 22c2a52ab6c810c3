"""Figures of latency spikes and loss episodes in measured RTTs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator, NullFormatter, ScalarFormatter

from bentpipe.plots import style
from bentpipe.plots.canvas import canvas
from bentpipe.times import format_utc

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bentpipe.analysis.loss import LossEpisodes
    from bentpipe.analysis.spikes import Spikes
    from bentpipe.analysis.tables import Floats, Series
    from bentpipe.plots.canvas import AxesLike

#: Number of parts into which a series is divided; range and median of each are drawn. So a day of pings is no larger a
#: file than a minute, and no spike is lost between two points.
STRETCHES = 1500
#: Largest number of shaded spikes or silences. Chosen here: more are one shade.
MOST_SHADED = 2000
#: Longest series whose axis is in seconds, and in minutes [s].
IN_SECONDS_S, IN_MINUTES_S = 600.0, 4 * 3600.0
_LINE = "#0072B2"
_SPIKE = "#D55E00"


def plot_spikes(series: Series, result: Spikes, *, period_s: float | None = None, ax: AxesLike = None) -> Figure:
    """Plot RTTs over time with the spikes' threshold and the lasting spikes, and these spikes' durations.

    Source: T3P, figure 3a.

    Args:
        series: The analyzed series.
        result: The result of `bentpipe.analysis.latency_spikes`.
        period_s: Duration of a slot [s], whose multiples are marked; None: no slots.
        ax: Two axes to draw into; None: a new figure.

    Example:
        >>> from bentpipe.analysis import latency_spikes
        >>> from bentpipe.analysis.tables import only_series
        >>> from bentpipe.measurements.runs.analysis_input import load_table
        >>> table = load_table("ping.txt", "probes").table
        >>> figure = plot_spikes(only_series(table), latency_spikes(table))
    """
    replies_s, rtt_ms = series.replies()
    lasting = result.spikes.filter("lasting")
    with canvas(ax, 2, size_in=(9.2, 3.4), columns=2, width_ratios=(2, 1)) as drawing:
        left, right = drawing.axes
        unit, unit_s = _time_unit(series.duration_s)
        _draw_range(left, replies_s / unit_s, rtt_ms)
        if result.threshold_ms is not None:
            left.axhline(result.threshold_ms, color=_SPIKE, linestyle="--", label="twice the median")
            left.legend(loc="upper right")
        begins_s = _since(lasting, series)
        _shade(left, begins_s[:MOST_SHADED], lasting["duration_s"].head(MOST_SHADED), series.duration_s, unit_s)
        left.set_title(f"{result.spikes.height} spikes, of which {lasting.height} last")
        left.set_xlabel(f"{unit} since {format_utc(series.start_unix_ns)}")
        left.set_ylabel("RTT [ms]")
        left.set_ylim(bottom=0)
        durations = lasting["duration_s"].to_numpy()
        if durations.size:
            right.hist(durations, bins=np.arange(0, durations.max() + 4, 2.0).tolist(), color=_SPIKE)
            if period_s is not None:
                for multiple in range(1, int(durations.max() / period_s) + 2):
                    right.axvline(multiple * period_s, color=style.HANDOVER, linewidth=0.8)
            right.set_title("Lasting spikes")
            right.set_xlabel("Duration [s]")
            right.set_ylabel("Number")
            right.yaxis.set_major_locator(MaxNLocator(integer=True))
        else:
            right.set_axis_off()
    return drawing.figure


def plot_loss(series: Series, result: LossEpisodes, *, period_s: float | None = None, ax: AxesLike = None) -> Figure:
    """Plot loss episodes over time, their lengths in probes, and loss by the second of the slot.

    Without losses, only the first panel is drawn, with a note.

    Args:
        series: The analyzed series.
        result: The result of `bentpipe.analysis.loss_episodes`.
        period_s: Duration of a slot [s] used for `result`; None: no slots, and the last panel says so.
        ax: Three axes to draw into; None: a new figure.

    Example:
        >>> from bentpipe.analysis import loss_episodes
        >>> from bentpipe.analysis.tables import only_series
        >>> from bentpipe.measurements.runs.analysis_input import load_table
        >>> table = load_table("ping.txt", "probes").table
        >>> figure = plot_loss(only_series(table), loss_episodes(table))
    """
    episodes = result.episodes
    with canvas(ax, 3, size_in=(10.4, 3.4), columns=3, width_ratios=(2, 1, 1)) as drawing:
        left, middle, right = drawing.axes
        unit, unit_s = _time_unit(series.duration_s)
        left.plot(
            _since(episodes, series) / unit_s, episodes["probes"].to_numpy(), ".", color=_LINE, markersize=4, zorder=3
        )
        silences = result.silences.head(MOST_SHADED)
        _shade(left, _since(silences, series), silences["duration_s"], series.duration_s, unit_s)
        silent = f"; {result.silences.height} silences" if result.silences.height else ""
        left.set_title(f"{result.lost} of {result.probes} probes lost in {episodes.height} episodes{silent}")
        left.set_xlabel(f"{unit} since {format_utc(series.start_unix_ns)}")
        left.set_ylabel("Probes lost in a row")
        left.set_xlim(0, max(series.duration_s, 1e-9) / unit_s)
        if not episodes.height:
            unwritten = "\n(silences, shaded, may contain unrecorded losses)" if silences.height else ""
            _note(left, f"no lost probe{unwritten}")
            left.set_yticks([])
            for axes in (middle, right):
                axes.set_axis_off()
            return drawing.figure
        length, count = np.unique(episodes["probes"].to_numpy(), return_counts=True)
        at_least = np.cumsum(count[::-1])[::-1] / count.sum()
        middle.plot(length, at_least, color=_LINE, marker=".", drawstyle="steps-post")
        style.log_scale(middle, "x")
        style.log_scale(middle, "y")
        for axis in (left.yaxis, middle.xaxis):
            axis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
            axis.set_major_formatter(ScalarFormatter())
        middle.xaxis.set_minor_formatter(NullFormatter())
        middle.set_title("Length of episodes")
        middle.set_xlabel("Probes lost in a row")
        middle.set_ylabel("Share of episodes as long or longer")
        right.set_title("Loss by time in the slot")
        if result.by_phase:
            shares = np.array([np.nan if share is None else share for share in result.by_phase])
            right.bar(np.arange(shares.size) + 0.5, 100 * shares, width=0.9, color=_LINE)
            right.set_xlim(0, period_s or shares.size)
            right.set_xlabel("Seconds since the edge")
            right.set_ylabel("Probes lost [%]")
        else:
            _note(right, "no slots detected")
            right.set_axis_off()
    return drawing.figure


def _note(axes: Axes, text: str) -> None:
    """Write the reason for an empty panel in its middle."""
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)


def _shade(axis: Axes, begins_s: Floats, durations_s: pl.Series, length_s: float, unit_s: float) -> None:
    """Shade spans of a series of `length_s`, each wide enough to be visible."""
    ends_s = begins_s + durations_s.to_numpy()
    spans = zip(begins_s.tolist(), ends_s.tolist(), strict=True)
    for start_s, end_s in style.widened(spans, length_s):
        axis.axvspan(start_s / unit_s, end_s / unit_s, color=style.OUTAGE, linewidth=0, zorder=0)


def _draw_range(axis: Axes, at: Floats, rtt_ms: Floats) -> None:
    """Draw the range and the median of each of `STRETCHES` parts; of few replies, every one."""
    if rtt_ms.size <= 2 * STRETCHES:
        axis.plot(at, rtt_ms, ".", markersize=2, color=_LINE)
        return
    parts = np.array_split(np.arange(rtt_ms.size), STRETCHES)
    # Parts have equal numbers of replies, not equal durations, so that none lies in a gap.
    middle = np.array([at[part].mean() for part in parts])
    low, high = (np.array([f(rtt_ms[part]) for part in parts]) for f in (np.min, np.max))
    axis.vlines(middle, low, high, color=style.DELAY, linewidth=0.6, label="range")
    axis.plot(middle, [np.median(rtt_ms[part]) for part in parts], ".", markersize=1.5, color=_LINE, label="median")


def _time_unit(duration_s: float) -> tuple[str, float]:
    """Return the unit of a time axis for a series of this duration: its name and length [s]."""
    if duration_s <= IN_SECONDS_S:
        return "Seconds", 1.0
    return ("Minutes", 60.0) if duration_s <= IN_MINUTES_S else ("Hours", 3600.0)


def _since(rows: pl.DataFrame, series: Series) -> Floats:
    """Return the starts of episodes relative to the start of the series [s]."""
    starts_s: Floats = (rows["start_unix_ns"].to_numpy() - series.start_unix_ns) / 1e9
    return starts_s
