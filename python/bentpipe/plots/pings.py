"""Pings over time in the style of published plots: every reply a dot, every loss a tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.plots import style
from bentpipe.plots.canvas import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bentpipe.analysis.handovers import Handovers
    from bentpipe.analysis.spikes import Spikes
    from bentpipe.analysis.tables import Series
    from bentpipe.plots.canvas import AxesLike

#: Duration of the whole figure [s] (Huston 2024, figure 3).
WHOLE_S = 380.0
#: Margins after and before an edge that the view inside a slot omits [s]. Chosen here: `analysis.edges` looks for the
#: handover's delay for one second and for its loss for half a second.
CUT_S = (1.0, 0.5)


def plot_ping_profile(series: Series, result: Handovers, *, title: str, ax: AxesLike = None) -> Figure:
    """Plot a flood ping: whole, around the largest step between slots, and inside one slot (Huston 2024, figures 3–5).

    Args:
        series: The pings.
        result: Their slots; without slots only the whole is drawn.
        title: Title of the first panel.
        ax: Three axes to draw into; None: a new figure.

    Example:
        >>> from bentpipe.analysis import analyze_handovers
        >>> from bentpipe.analysis.tables import only_series
        >>> from bentpipe.measurements.runs.analysis_input import load_table
        >>> table = load_table("ping.txt", "probes").table
        >>> figure = plot_ping_profile(only_series(table), analyze_handovers(table), title="To 1.1.1.1")
    """
    with canvas(ax, 3, size_in=(9.2, 7.6), rows=3) as drawing:
        whole, around, inside = drawing.axes
        _draw(whole, series, 0.0, min(WHOLE_S, series.duration_s))
        whole.set_title(title)
        edges = _edges_s(series, result)
        for edge in edges[edges <= WHOLE_S]:
            whole.axvline(edge, color=style.SLOT, linewidth=0.7, zorder=0)
        for axis in (around, inside):
            axis.set_xlabel("Time since the first probe [s]")
        slot = _greatest_step(series, result)
        if slot is None or result.period_s is None:
            around.set_title(result.reason)
            inside.set_axis_off()
            return drawing.figure
        period = result.period_s
        _draw(around, series, slot - period, slot + period)
        around.set_title("Around the handover with the largest step")
        around.axvline(slot, color=style.HANDOVER, linewidth=0.9, zorder=0)
        _draw(inside, series, slot + CUT_S[0], slot + period - CUT_S[1])
        inside.set_title(f"Inside the next slot, without the first {CUT_S[0]:g} s and the last {CUT_S[1]:g} s")
    return drawing.figure


def _edges_s(series: Series, result: Handovers) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    starts = result.slots["start_unix_ns"].to_numpy()
    edges: np.ndarray[tuple[int], np.dtype[np.float64]] = (starts - series.start_unix_ns) / 1e9
    return edges


def _greatest_step(series: Series, result: Handovers) -> float | None:
    """Return the start [s] of the slot whose median differs most from that of the slot before."""
    steps = result.slots.drop_nulls("step_ms")
    if not steps.height:
        return None
    at = int(steps["step_ms"].abs().to_numpy().argmax())
    return float(steps["start_unix_ns"][at] - series.start_unix_ns) / 1e9


def _draw(axis: Axes, series: Series, from_s: float, to_s: float) -> None:
    """Draw replies as dots and lost probes as ticks at the bottom, in an interval."""
    here = (series.t_s >= from_s) & (series.t_s <= to_s)
    axis.plot(series.t_s[here], series.rtt_ms[here], marker=".", linestyle="none", markersize=1.5, color=style.DELAY)
    lost = series.t_s[here & series.lost]
    if lost.size:  # an empty artist without clipping would take the whole figure
        axis.plot(
            lost, np.zeros(lost.size), marker="|", linestyle="none", markersize=9, color=style.LOSS, clip_on=False
        )
    axis.set_xlim(from_s, to_s)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("RTT [ms]")


def plot_spikes_within(
    series: Series, result: Spikes, *, from_s: float, length_s: float, title: str, ax: AxesLike = None
) -> Figure:
    """Plot latency within some minutes, the spikes' threshold, and the lasting spikes (T3P, figure 3a).

    Args:
        series: The pings.
        result: Their spikes.
        from_s: Start of the figure [s since the first probe].
        length_s: Duration of the figure [s].
        title: Title of the panel.
        ax: Axes to draw into; None: a new figure.

    Example:
        >>> from bentpipe.analysis import latency_spikes
        >>> from bentpipe.analysis.tables import only_series
        >>> from bentpipe.measurements.runs.analysis_input import load_table
        >>> table = load_table("ping.txt", "probes").table
        >>> spikes = latency_spikes(table)
        >>> figure = plot_spikes_within(only_series(table), spikes, from_s=10.0, length_s=60.0, title="One minute")
    """
    to_s = min(from_s + length_s, series.duration_s)
    with canvas(ax, size_in=(9.2, 3.2)) as drawing:
        (axis,) = drawing.axes
        _draw(axis, series, from_s, to_s)
        if result.threshold_ms is not None:
            axis.axhline(result.threshold_ms, color=style.HANDOVER, linewidth=0.9, label="2 × median")
        for start_ns, duration_s in result.spikes.filter("lasting").select("start_unix_ns", "duration_s").rows():
            begin = (start_ns - series.start_unix_ns) / 1e9
            if from_s <= begin < to_s:
                axis.axvspan(begin, begin + duration_s, color=style.OUTAGE, zorder=0)
        axis.set_title(title)
        axis.set_xlabel("Time since the first probe [s]")
        axis.legend(loc="upper right")
    return drawing.figure
