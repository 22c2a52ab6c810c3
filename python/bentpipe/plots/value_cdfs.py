"""Distributions of one quantity, a curve for each scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.plots import style
from bentpipe.plots.canvas import canvas
from bentpipe.plots.series import ecdf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from bentpipe.plots.canvas import AxesLike


def plot_value_cdfs(values: Mapping[str, Sequence[float]], *, label: str, ax: AxesLike = None) -> Figure:
    """Plot the distribution of each scheme's values.

    Args:
        values: Values by scheme; the scheme's name is that of the legend.
        label: Label of the values, with their unit.
        ax: Axes to draw into; None: a new figure.

    Example:
        >>> figure = plot_value_cdfs({"none": [80.0, 90.0], "satguard": [60.0, 70.0]}, label="delay [ms]")
    """
    with canvas(ax, size_in=(7.2, 3.8)) as drawing:
        (axis,) = drawing.axes
        for name, sample in values.items():
            look = style.look(name)
            x, share = ecdf(np.asarray(sample, dtype=np.float64))
            axis.step(x, share, where="post", color=look.colour, linestyle=look.line, label=name)
        axis.set_xlabel(label)
        axis.set_ylabel("share")
        axis.set_ylim(0, 1)
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return drawing.figure
