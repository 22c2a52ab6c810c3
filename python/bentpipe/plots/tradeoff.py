"""Goodput against queueing delay, for each controller in several settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.plots import style
from bentpipe.plots.canvas import canvas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from bentpipe.plots.canvas import AxesLike

MARKERS = ("o", "s", "s", "^", "^", "D", "D", "v", "v", "P", "P")
"""Markers of settings in order: the first is single, the others come in pairs."""


@dataclass(frozen=True)
class Point:
    """A controller in a setting."""

    controller: str
    setting: str
    queueing_ms: float
    goodput_mbps: float


def plot_tradeoffs(points: Sequence[Point], *, title: str, ax: AxesLike = None) -> Figure:
    """Plot a marker for each setting, a colour for each controller; settings that end in "+ ECN" are filled.

    Args:
        points: Controllers in settings.
        title: Title of the panel.
        ax: Axes to draw into; None: a new figure.

    Example:
        >>> points = [Point("cubic", "FIFO", 40.0, 90.0), Point("cubic", "CoDel + ECN", 4.0, 88.0)]
        >>> figure = plot_tradeoffs(points, title="Download, one flow")
    """
    from matplotlib.lines import Line2D

    settings = list(dict.fromkeys(point.setting for point in points))
    controllers = list(dict.fromkeys(point.controller for point in points))
    with canvas(ax, size_in=(7.2, 4.6)) as drawing:
        (axes,) = drawing.axes
        for point in points:
            colour = style.look(point.controller).colour
            filled = point.setting.endswith("+ ECN")
            axes.plot(
                max(point.queueing_ms, 0.1),
                point.goodput_mbps,
                marker=MARKERS[settings.index(point.setting) % len(MARKERS)],
                markerfacecolor=colour if filled else "none",
                markeredgecolor=colour,
                linestyle="none",
                markersize=8,
            )
        style.log_scale(axes, "x")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("Mean queueing delay [ms]")
        axes.set_ylabel("Goodput [Mbit/s]")
        axes.set_title(title)
        kinds = [
            Line2D(
                [],
                [],
                marker=MARKERS[i % len(MARKERS)],
                markerfacecolor="#444444" if name.endswith("+ ECN") else "none",
                label=name,
                color="#444444",
                linestyle="none",
            )
            for i, name in enumerate(settings)
        ]
        colours = [
            Line2D([], [], color=style.look(name).colour, linewidth=4, label=style.look(name).name)
            for name in controllers
        ]
        axes.legend(handles=[*colours, *kinds], fontsize="x-small", ncols=2, loc="lower left")
    return drawing.figure
