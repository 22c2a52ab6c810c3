"""Pings over time, as the published plots draw them: every reply a dot, every loss a tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from bentpipe.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bentpipe.analysis.handovers import Handovers
    from bentpipe.analysis.spikes import Spikes
    from bentpipe.analysis.tables import Series

#: Length of the whole picture [s] (Huston 2024, figure 3).
WHOLE_S = 380.0
#: What is cut off after and before an edge to see the inside of a slot [s]; chosen here: as `analysis.edges` looks for
#: the handover's delay for a second and for its loss for half of one.
CUT_S = (1.0, 0.5)


def plot_ping_profile(one: Series, found: Handovers, title: str) -> Figure:
    """A flood ping: whole, around the greatest step between slots, and inside one slot (Huston 2024, figures 3 to 5).

    Args:
        one: The pings.
        found: Their slots; without any only the whole is drawn.
        title: Whose pings these are.
    """
    with style.styled():
        figure = Figure(figsize=(9.2, 7.6), layout="constrained")
        whole, around, inside = figure.subplots(3, 1)
        _draw(whole, one, 0.0, min(WHOLE_S, one.duration_s))
        whole.set_title(title)
        edges = _edges_s(one, found)
        for edge in edges[edges <= WHOLE_S]:
            whole.axvline(edge, color=style.SLOT, linewidth=0.7, zorder=0)
        for axis in (around, inside):
            axis.set_xlabel("Seconds")
        slot = _greatest_step(one, found)
        if slot is None or found.period_s is None:
            around.set_title(found.reason)
            inside.set_axis_off()
            return figure
        period = found.period_s
        _draw(around, one, slot - period, slot + period)
        around.set_title("Around the handover with the greatest step")
        around.axvline(slot, color=style.HANDOVER, linewidth=0.9, zorder=0)
        _draw(inside, one, slot + CUT_S[0], slot + period - CUT_S[1])
        inside.set_title(f"Inside the slot after it, without the first {CUT_S[0]:g} s and the last {CUT_S[1]:g} s")
    return figure


def _edges_s(one: Series, found: Handovers) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    starts = found.slots["start_unix_ns"].to_numpy()
    edges: np.ndarray[tuple[int], np.dtype[np.float64]] = (starts - one.start_unix_ns) / 1e9
    return edges


def _greatest_step(one: Series, found: Handovers) -> float | None:
    """The beginning [s] of the slot whose median differs most from that before."""
    steps = found.slots.drop_nulls("step_ms")
    if not steps.height:
        return None
    at = int(steps["step_ms"].abs().to_numpy().argmax())
    return float(steps["start_unix_ns"][at] - one.start_unix_ns) / 1e9


def _draw(axis: Axes, one: Series, from_s: float, to_s: float) -> None:
    """Replies as dots, lost probes as ticks at the bottom, from one time to another."""
    here = (one.t_s >= from_s) & (one.t_s <= to_s)
    axis.plot(one.t_s[here], one.rtt_ms[here], marker=".", linestyle="none", markersize=1.5, color=style.DELAY)
    lost = one.t_s[here & one.lost]
    if lost.size:  # without any an artist that is not clipped would take the whole figure
        axis.plot(
            lost, np.zeros(lost.size), marker="|", linestyle="none", markersize=9, color=style.LOSS, clip_on=False
        )
    axis.set_xlim(from_s, to_s)
    axis.set_ylim(bottom=0)
    axis.set_ylabel("RTT [ms]")


def plot_spikes(one: Series, found: Spikes, from_s: float, length_s: float, title: str) -> Figure:
    """Latency over some minutes, the line of spikes, and those that last (T3P, figure 3a).

    Args:
        one: The pings.
        found: Their spikes.
        from_s: Where the picture begins [s since the first probe].
        length_s: How much it shows [s].
        title: Whose pings these are.
    """
    to_s = min(from_s + length_s, one.duration_s)
    with style.styled():
        figure = Figure(figsize=(9.2, 3.2), layout="constrained")
        axis = figure.subplots()
        _draw(axis, one, from_s, to_s)
        if found.threshold_ms is not None:
            axis.axhline(found.threshold_ms, color=style.HANDOVER, linewidth=0.9, label="2 × median")
        for start_ns, duration_s in found.spikes.filter("lasting").select("start_unix_ns", "duration_s").rows():
            begin = (start_ns - one.start_unix_ns) / 1e9
            if from_s <= begin < to_s:
                axis.axvspan(begin, begin + duration_s, color=style.OUTAGE, zorder=0)
        axis.set_title(title)
        axis.set_xlabel("Seconds")
        axis.legend(loc="upper right")
    return figure
