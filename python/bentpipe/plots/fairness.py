"""Fairness: the CDF of the groups' goodput ratio by second (T3P, figure 5d), and Jain's index by time scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.plots.canvas import canvas
from bentpipe.plots.style import log_scale, look, scheme_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bentpipe.fairness import Fairness, Group
    from bentpipe.plots.canvas import AxesLike


def plot_fairness(results: Mapping[str, Fairness], *, title: str, ax: AxesLike = None) -> Figure:
    """Plot one line for each named mixture of flows.

    Left: the first group's goodput over the second's, in each second. Right: Jain's index over all flows, with the 5th
    percentile over windows as a band.

    Args:
        results: By name: the fairness of a mixture.
        title: Title of the whole.
        ax: Two axes to draw into; None: a new figure.

    Example:
        >>> from pathlib import Path
        >>> from bentpipe.fairness import fairness, parse_groups
        >>> from bentpipe.profiles import preset_profile
        >>> path = preset_profile("dumbbell:rate=9mbit", 4.0)
        >>> result = fairness([path], parse_groups("reno,cubic"), out=Path("out/fairness"))
        >>> figure = plot_fairness({"NewReno against CUBIC": result}, title="Two flows")
    """
    with canvas(ax, 2, size_in=(9.0, 3.4), columns=2) as drawing:
        drawing.title(title)
        left, right = drawing.axes
        for name, each in results.items():
            _line(left, right, name, each)
        log_scale(left, "x")
        left.axvline(1.0, color="#5F6368", linewidth=0.7, linestyle=":")
        first = next(iter(results.values())).groups
        left.set_xlabel(f"goodput of {group_name(first[0])} ÷ goodput of the others, 1 s samples")
        left.set_ylabel("share of the seconds")
        left.set_ylim(0.0, 1.0)
        log_scale(right, "x")
        right.set_xlabel("time scale [s]")
        right.set_ylabel("Jain's index over all flows")
        right.set_ylim(0.0, 1.02)
        left.legend(loc="upper left", fontsize="x-small")
    return drawing.figure


def group_name(group: Group) -> str:
    """Name a group: ``8 × CUBIC``."""
    return f"{group.count} × {scheme_name(group.scheme)}"


def _line(left: Axes, right: Axes, name: str, each: Fairness) -> None:
    line_look = look(each.groups[-1].scheme)
    for ratio in each.ratios:
        finite = np.sort(ratio[np.isfinite(ratio) & (ratio > 0)])
        if finite.size:  # values of 0 or infinity count, beyond the ends
            below = int((ratio == 0).sum())
            share = (below + np.arange(1, finite.size + 1)) / ratio.size
            left.plot(finite, share, color=line_look.colour, linestyle=line_look.line, label=name)
    scales = [at.scale_s for at in each.scales]
    right.plot(
        scales, [at.jain.mean for at in each.scales], color=line_look.colour, marker=line_look.marker, label=name
    )
    right.fill_between(
        scales,
        [at.jain_p5 for at in each.scales],
        [at.jain.mean for at in each.scales],
        color=line_look.colour,
        alpha=0.15,
    )
