"""Latency under load over time: the goodput of all flows in both directions, and the RTT of pings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.plots import series, style
from bentpipe.plots.canvas import canvas
from bentpipe.plots.timeline import BIN_S, draw_capacity, mark_path
from bentpipe.runs.latency import pings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from bentpipe.plots.canvas import AxesLike
    from bentpipe.plots.series import Floats
    from bentpipe.profiles.table import Direction
    from bentpipe.runs.store import Run

DIRECTIONS: tuple[Direction, Direction] = ("down", "up")


def plot_load_test(runs: Sequence[Run], *, ax: AxesLike = None) -> Figure:
    """Plot goodput down, goodput up and the RTT of pings over time, one line per Run, as flent draws its tests.

    Args:
        runs: Runs with pings, of one controller each, over the same Profile with the same seed.
        ax: Three axes to draw into, from top to bottom; None: a new figure.

    Example:
        >>> from bentpipe.runs import find_runs
        >>> runs = [run for run in find_runs("out/rrul") if run.seed == 0]
        >>> figure = plot_load_test(runs)
    """
    with canvas(ax, 3, size_in=(9.2, 6.2), rows=3, sharex=True) as drawing:
        *rates, latency = drawing.axes
        mark_path(runs[0], drawing.axes)
        for axis, direction, title in zip(rates, DIRECTIONS, ("Download", "Upload"), strict=True):
            draw_capacity(axis, runs[0], [direction])
            axis.set_title(f"{title}: goodput of all flows, and capacity (1 s means)")
            axis.set_ylabel("Goodput [Mbit/s]")
        latency.margins(y=0.08 + 0.07 * len(runs))
        for row, run in enumerate(runs):
            look = style.look(run.names[0])
            line = {"color": look.colour, "linestyle": look.line, "label": style.legend_name(run.names[0])}
            for axis, direction in zip(rates, DIRECTIONS, strict=True):
                at_s, bps = total_goodput(run, direction)
                axis.plot(at_s, bps * 1e-6, **line)
            at_s, rtt_ms = ping_rtts(run)
            latency.plot(at_s, rtt_ms, color=look.colour, linewidth=0.7)
            lost = at_s[np.isnan(rtt_ms)]
            heights = np.full_like(lost, 0.98 - 0.06 * row)
            latency.plot(lost, heights, "|", color=look.colour, markersize=3.5, transform=latency.get_xaxis_transform())
        for axis in drawing.axes:
            axis.set_ylim(bottom=0)
            axis.set_xlim(0, runs[0].duration_s)
        latency.set_title("RTT of pings (ticks above: lost)")
        latency.set_ylabel("RTT [ms]")
        latency.set_xlabel("Time since the run began [s]")
        drawing.legend(rates[0].get_legend_handles_labels()[0])
    return drawing.figure


def total_goodput(run: Run, direction: Direction) -> tuple[Floats, Floats]:
    """Return the goodput of all flows in a direction over the path of the pings: middles of 1 s bins [s], bit/s."""
    samples, path = run.samples(), ping_path(run)
    flows = [
        number
        for number, (flow, role) in enumerate(zip(run.flows, run.flow_paths, strict=True))
        if flow["direction"] == direction and role == path
    ]
    at_s: Floats = np.arange(int(run.duration_s / BIN_S + 1e-6), dtype=np.float64) * BIN_S + BIN_S / 2
    total: Floats = np.zeros_like(at_s)
    for flow in flows:
        middles, bps = series.goodput(samples, flow, BIN_S)
        if len(middles):
            total += np.interp(at_s, middles, bps, right=0.0)
    return at_s, total


def ping_rtts(run: Run) -> tuple[Floats, Floats]:
    """Return when pings were sent [s] and their RTTs [ms], NaN: lost; of several paths, over the first."""
    table = pings(run)
    own = table.filter(table["path"] == ping_path(run))
    return own["t_s"].to_numpy(), own["rtt_ms"].fill_null(float("nan")).to_numpy()


def ping_path(run: Run) -> str:
    """Return the role of the Profile of a Run's first pings."""
    return run.record.experiment.pings[0].profile
