"""Two Runs of one Experiment, as simulator and kernel, in one figure: goodput and one-way delay over time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bentpipe.plots import series, style
from bentpipe.plots.canvas import canvas
from bentpipe.runs.figures import delays_by_second

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from bentpipe.plots.canvas import AxesLike
    from bentpipe.runs.store import Run

BIN_S = 1.0
"""Bin of goodput, equal to the windows of `links` [s]."""


def plot_worlds(runs: Sequence[tuple[str, Run]], *, warmup_s: float, ax: AxesLike = None) -> Figure:
    """Plot a column for each of two Runs: goodput of each flow above, one-way delay of all data below.

    Args:
        runs: The Runs, each with the title of its column.
        warmup_s: Duration of the warm-up, which the comparison excludes [s].
        ax: Four axes to draw into: goodput of both, delay of both; None: a new figure.

    Example:
        >>> from bentpipe.runs import find_runs
        >>> first, second, *_ = find_runs("out/race")
        >>> figure = plot_worlds([("first", first), ("second", second)], warmup_s=first.warmup_s)
    """
    with canvas(ax, 4, size_in=(9.2, 3.6), rows=2, columns=2, sharex=True, sharey="row") as drawing:
        above, below = drawing.axes[:2], drawing.axes[2:]
        for column, (title, run) in enumerate(runs):
            samples = run.samples()
            names = run.names
            for i, controller in enumerate(names):
                look = style.look(controller)
                dashes = (0, (4, 1.5)) if controller in names[:i] else look.line
                t_s, bps = series.goodput(samples, i, BIN_S)
                above[column].plot(
                    t_s, bps * 1e-6, color=look.colour, linestyle=dashes, label=style.legend_name(controller)
                )
            below[column].plot(*delays_with_gaps(run), color=style.DELAY)
            above[column].set_title(f"{title}: goodput")
            below[column].set_title(f"{title}: one-way delay")
            below[column].set_xlabel("Time since the run began [s]")
            for axis in (above[column], below[column]):
                axis.axvspan(0, warmup_s, color=style.WARM_UP, linewidth=0, zorder=0.3)
        above[0].set_ylabel("Goodput [Mbit/s]")
        below[0].set_ylabel("Delay [ms]")
        for axis in drawing.axes:
            axis.set_ylim(bottom=0)
            axis.set_xlim(0, runs[0][1].duration_s)
        drawing.legend(above[0].get_legend_handles_labels()[0])
    return drawing.figure


def delays_with_gaps(run: Run) -> tuple[list[int], list[float]]:
    """Return windows of 1 s and the mean one-way delay of all data in each [ms]; NaN: no packet was delivered."""
    seconds = delays_by_second(run.links(), str(run.flows[0]["direction"]), 0.0)
    windows = list(range(min(seconds), max(seconds) + 1)) if seconds else []
    sums = (seconds.get(window) for window in windows)
    return windows, [math.nan if each is None else each[0] / each[1] for each in sums]
