"""Boxes by place and controller, and CDFs by controller: the usual summaries of many long flows in papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from bentpipe.plots import style

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Boxes:
    """One set of axes: values by (place, controller)."""

    title: str
    unit: str
    values: Mapping[tuple[str, str], Floats]


def plot_boxes(panels: Sequence[Boxes], places: Sequence[str], controllers: Sequence[str]) -> Figure:
    """Plot boxes from quartile to quartile with the median, and Tukey's whiskers; outliers are not drawn."""
    with style.styled():
        figure = Figure(figsize=(9.2, 2.6 * ((len(panels) + 1) // 2) + 0.4), layout="constrained")
        axes = figure.subplots((len(panels) + 1) // 2, 2, squeeze=False).ravel()
        width = 0.8 / len(controllers)
        for axis, panel in zip(axes, panels, strict=False):
            for i, controller in enumerate(controllers):
                look = style.look(controller)
                at = np.arange(len(places)) + (i - (len(controllers) - 1) / 2) * width
                axis.boxplot(
                    [_finite(panel.values[place, controller]) for place in places],
                    positions=at,
                    widths=0.85 * width,
                    showfliers=False,
                    patch_artist=True,
                    manage_ticks=False,
                    boxprops={"facecolor": look.colour, "alpha": 0.55, "edgecolor": look.colour},
                    medianprops={"color": "#202124"},
                    whiskerprops={"color": look.colour},
                    capprops={"color": look.colour},
                )
                axis.plot([], [], color=look.colour, linewidth=5, alpha=0.55, label=style.legend_name(controller))
            axis.set_title(panel.title)
            axis.set_ylabel(panel.unit)
            axis.set_ylim(bottom=0)
            axis.set_xticks(range(len(places)), places)
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        style.legend_above(figure, axes[0].get_legend_handles_labels()[0])
    return figure


def plot_normalised_cdfs(panels: Mapping[str, Mapping[str, Floats]], label: str) -> Figure:
    """Plot a named panel with a CDF for each controller; `label` names the axis of values."""
    with style.styled():
        figure = Figure(figsize=(4.4 * len(panels) + 0.4, 3.2), layout="constrained")
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        handles: dict[str, Line2D] = {}
        for axis, (title, lines) in zip(axes, panels.items(), strict=True):
            for controller, values in lines.items():
                look = style.look(controller)
                ordered = np.sort(_finite(values))
                (line,) = axis.plot(
                    ordered,
                    np.arange(1, len(ordered) + 1) / max(len(ordered), 1),
                    color=look.colour,
                    linestyle=look.line,
                    drawstyle="steps-post",
                )
                handles.setdefault(style.legend_name(controller), line)
            axis.set_title(title)
            axis.set_xlabel(label)
            axis.set_xlim(0, 1)
            axis.set_ylim(0, 1)
            axis.grid(axis="x")
        axes[0].set_ylabel("Share of samples at or below")
        figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=6)
    return figure


def _finite(values: Floats) -> Floats:
    finite: Floats = values[np.isfinite(values)]
    return finite
