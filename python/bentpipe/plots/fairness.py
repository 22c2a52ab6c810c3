"""Who gets what: the CDF of the groups' ratio second by second (T3P, figure 5d), and Jain's index over time scales."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.plots.style import log_scale, look, scheme_name, styled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bentpipe.fairness import Fairness, Group


def plot_fairness(found: Mapping[str, Fairness], title: str) -> Figure:
    """One line for each mixture of flows, by its name.

    Left: goodput of the first group over that of the second, in each second. Right: Jain's index over all flows, with
    the 5th percentile over windows as a band.
    """
    with styled():
        from matplotlib.figure import Figure as NewFigure

        figure = NewFigure(figsize=(9.0, 3.4), layout="constrained")
        figure.suptitle(title)
        left, right = figure.subplots(1, 2)
        for name, each in found.items():
            _line(left, right, name, each)
        log_scale(left, "x")
        left.axvline(1.0, color="#5F6368", linewidth=0.7, linestyle=":")
        first = next(iter(found.values())).groups
        left.set_xlabel(f"goodput of {group_name(first[0])} ÷ that of the others, 1 s samples")
        left.set_ylabel("part of the seconds")
        left.set_ylim(0.0, 1.0)
        log_scale(right, "x")
        right.set_xlabel("time scale [s]")
        right.set_ylabel("Jain's index over all flows")
        right.set_ylim(0.0, 1.02)
        left.legend(loc="upper left", fontsize="x-small")
        return figure


def group_name(group: Group) -> str:
    """``8 × CUBIC``."""
    return f"{group.count} × {scheme_name(group.scheme)}"


def _line(left: Axes, right: Axes, name: str, each: Fairness) -> None:
    how = look(each.groups[-1].scheme)
    for ratio in each.ratios:
        finite = np.sort(ratio[np.isfinite(ratio) & (ratio > 0)])
        if finite.size:  # what is 0 or infinite counts, beyond the ends
            below = int((ratio == 0).sum())
            part = (below + np.arange(1, finite.size + 1)) / ratio.size
            left.plot(finite, part, color=how.colour, linestyle=how.line, label=name)
    scales = [at.scale_s for at in each.scales]
    right.plot(scales, [at.jain.mean for at in each.scales], color=how.colour, marker=how.marker, label=name)
    right.fill_between(
        scales, [at.jain_p5 for at in each.scales], [at.jain.mean for at in each.scales], color=how.colour, alpha=0.15
    )
