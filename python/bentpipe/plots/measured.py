"""Measured Runs over time: one panel for each figure of their tables, on one axis of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.plots import style
from bentpipe.plots.canvas import canvas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from bentpipe.measurements.runs.figures import TimeFigure
    from bentpipe.plots.canvas import AxesLike

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Colours of lines, in their order."""
FEW = 120
"""A line of fewer values has a dot at each."""


def plot_measured(figures: Sequence[TimeFigure], start_unix_ns: int, *, ax: AxesLike = None) -> Figure:
    """Plot figures over time, one panel each; lost probes are ticks at the bottom.

    Args:
        figures: One or more.
        start_unix_ns: Zero of the axis of time [ns since 1970].
        ax: As many axes as there are figures; None: a new figure.

    Example:
        >>> from bentpipe.measurements.runs.figures import figures_of
        >>> from bentpipe.measurements.runs.imports import import_files
        >>> run = import_files(["ping.txt"], "out", site="home").run
        >>> figure = plot_measured(figures_of(run), run.start_unix_ns)
    """
    count = len(figures)
    with canvas(ax, count, size_in=(9.2, 0.6 + 1.7 * count), rows=count, sharex=True) as drawing:
        for axis, figure in zip(drawing.axes, figures, strict=True):
            scale, unit = (1e-6, "Mbit/s") if figure.unit == "bit/s" else (1.0, figure.unit)
            for number, series in enumerate(figure.series):
                t_s = (series.unix_ns - start_unix_ns) / 1e9
                marker = "." if len(t_s) < FEW else ""
                colour = COLOURS[number % len(COLOURS)]
                axis.plot(t_s, series.values * scale, marker=marker, color=colour, label=series.name or figure.title)
                lost = t_s[np.isnan(series.values)] if figure.marks_lost else t_s[:0]
                if lost.size:
                    (marks,) = axis.plot(lost, np.zeros(lost.size), marker="|", linestyle="none", color=style.LOSS)
                    marks.set_markersize(9)
                    marks.set_clip_on(False)
            axis.set_ylim(0, 1.06 * axis.get_ylim()[1])  # margins are relative to the data's span, which may be 0
            axis.set_ylabel(f"[{unit}]")
            axis.set_title(figure.title, loc="left")
            if len(figure.series) > 1:
                axis.legend(loc="upper right", ncols=min(len(figure.series), 3))
        drawing.axes[-1].set_xlabel("Time since the start [s]")
    return drawing.figure
