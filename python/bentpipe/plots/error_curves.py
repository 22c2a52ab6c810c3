"""A quantity against the error of a controller's path hint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from bentpipe.plots import style


def plot(curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], error: str, quantity: str) -> Figure:
    """Plot a line for each scheme; a dashed line marks a correct hint.

    Args:
        curves: By scheme: errors and the quantity at each.
        error: Label of the horizontal axis.
        quantity: Label of the vertical axis.
    """
    with style.styled():
        figure = Figure(figsize=(7.2, 3.8), layout="constrained")
        axis = figure.subplots()
        for name, (errors, values) in curves.items():
            look = style.look(name)
            axis.plot(errors, values, color=look.colour, marker=look.marker, linestyle=look.line, label=look.name)
        axis.axvline(0, color=style.DELAY, linewidth=0.8, linestyle=(0, (4, 2)))
        axis.set_xlabel(error)
        axis.set_ylabel(quantity)
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
