"""A quantity against the error of a controller's path hint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.plots import style
from bentpipe.plots.canvas import canvas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from bentpipe.plots.canvas import AxesLike


def plot_error_curves(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, error: str, quantity: str, ax: AxesLike = None
) -> Figure:
    """Plot a line for each scheme; a dashed line marks a correct hint.

    Args:
        curves: By scheme: errors and the quantity at each.
        error: Label of the horizontal axis.
        quantity: Label of the vertical axis.
        ax: Axes to draw into; None: a new figure.

    Example:
        >>> curves = {"leocc": ([-100.0, 0.0, 100.0], [0.9, 1.1, 1.0])}
        >>> figure = plot_error_curves(curves, error="hint late by [ms]", quantity="goodput over the parent's")
    """
    with canvas(ax, size_in=(7.2, 3.8)) as drawing:
        (axis,) = drawing.axes
        for name, (errors, values) in curves.items():
            look = style.look(name)
            axis.plot(errors, values, color=look.colour, marker=look.marker, linestyle=look.line, label=look.name)
        axis.axvline(0, color=style.DELAY, linewidth=0.8, linestyle=(0, (4, 2)))
        axis.set_xlabel(error)
        axis.set_ylabel(quantity)
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return drawing.figure
