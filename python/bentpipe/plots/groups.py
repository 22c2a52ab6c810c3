"""Boxes by place and controller, and CDFs by controller: the usual summaries of many long flows in papers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import printable
from bentpipe.plots import style
from bentpipe.plots.canvas import canvas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from numpy.typing import NDArray

    from bentpipe.plots.canvas import AxesLike

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Boxes:
    """One set of axes: values by (place, controller)."""

    title: str
    unit: str
    values: Mapping[tuple[str, str], Floats]


def plot_boxes(
    panels: Sequence[Boxes], *, places: Sequence[str], controllers: Sequence[str], ax: AxesLike = None
) -> Figure:
    """Plot boxes from quartile to quartile with the median, and Tukey's whiskers; outliers are not drawn.

    Args:
        panels: One for each axes.
        places: Groups of boxes, from left to right.
        controllers: Boxes of a group.
        ax: Axes to draw into, one for each panel; None: a new figure.

    Example:
        >>> import numpy as np
        >>> panel = Boxes("Goodput", "Mbit/s", {("sydney", "bbr"): np.array([90.0, 110.0, 120.0])})
        >>> figure = plot_boxes([panel], places=["sydney"], controllers=["bbr"])
    """
    rows = (len(panels) + 1) // 2
    with canvas(ax, len(panels), size_in=(9.2, 2.6 * rows + 0.4), rows=rows, columns=2) as drawing:
        axes = drawing.axes
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
            axis.set_xticks(range(len(places)), [printable(place) for place in places])
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        drawing.legend(axes[0].get_legend_handles_labels()[0])
    return drawing.figure


def plot_normalised_cdfs(panels: Mapping[str, Mapping[str, Floats]], *, label: str, ax: AxesLike = None) -> Figure:
    """Plot CDFs of values from 0 to 1, one axes for each panel and a line for each controller.

    Args:
        panels: By title: values by controller.
        label: Label of the axis of values.
        ax: Axes to draw into, one for each panel; None: a new figure.

    Example:
        >>> import numpy as np
        >>> panels = {"Download": {"bbr": np.array([0.7, 0.9, 1.0]), "cubic": np.array([0.2, 0.3, 0.6])}}
        >>> figure = plot_normalised_cdfs(panels, label="Throughput over the largest of BBR")
    """
    size_in = (4.4 * len(panels) + 0.4, 3.2)
    with canvas(ax, len(panels), size_in=size_in, columns=len(panels), sharey=True) as drawing:
        axes = drawing.axes
        lines_by_name: dict[str, Line2D] = {}
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
                    label=style.legend_name(controller),
                )
                lines_by_name.setdefault(controller, line)
            axis.set_title(title)
            axis.set_xlabel(label)
            axis.set_xlim(0, 1)
            axis.set_ylim(0, 1)
            axis.grid(axis="x")
        axes[0].set_ylabel("Share of samples at or below")
        drawing.legend(list(lines_by_name.values()))
    return drawing.figure


def _finite(values: Floats) -> Floats:
    finite: Floats = values[np.isfinite(values)]
    return finite
