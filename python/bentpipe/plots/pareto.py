"""Gain against cost: each scheme's points and mean, and the Pareto front of the means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.plots import style
from bentpipe.plots.canvas import canvas

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.figure import Figure

    from bentpipe.plots.canvas import AxesLike


def plot_pareto(
    points: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, cost: str, gain: str, ax: AxesLike = None
) -> Figure:
    """Plot each point (pale), the means (solid) and the Pareto front of the means (line).

    Args:
        points: By scheme: costs and gains, one of each per Profile.
        cost: Label of the axis on which less is better.
        gain: Label of the axis on which more is better.
        ax: Axes to draw into; None: a new figure.

    Example:
        >>> points = {"bbr": ([20.0, 25.0], [0.9, 0.8]), "cubic": ([60.0, 70.0], [0.6, 0.7])}
        >>> figure = plot_pareto(points, cost="queueing delay [ms]", gain="share of the capacity")
    """
    means = {name: (float(np.mean(costs)), float(np.mean(gains))) for name, (costs, gains) in points.items()}
    with canvas(ax, size_in=(7.2, 4.6)) as drawing:
        (axis,) = drawing.axes
        for name, (costs, gains) in points.items():
            look = style.look(name)
            axis.scatter(costs, gains, s=9, color=look.colour, marker=look.marker, alpha=0.22, linewidths=0)
            mean = means[name]
            axis.plot(*mean, look.marker, color=look.colour, markersize=9, label=style.legend_name(name), zorder=4)
        front = sorted(mean for mean in means.values() if not _is_dominated(mean, means.values()))
        axis.plot(*zip(*front, strict=True), color=style.DELAY, linewidth=0.8, zorder=1)
        axis.set_xlabel(cost)
        axis.set_ylabel(gain)
        axis.set_ylim(bottom=0)
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return drawing.figure


def _is_dominated(mean: tuple[float, float], others: Iterable[tuple[float, float]]) -> bool:
    cost, gain = mean
    return any(c <= cost and g >= gain and (c, g) != mean for c, g in others)
