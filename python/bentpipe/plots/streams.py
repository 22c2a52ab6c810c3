"""Flows over time, one panel each, as in plots of two-stream tests and of long iperf3 runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from bentpipe.plots import style

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """A line of a panel: legend label, times [s], values (NaN: a gap) and look."""

    label: str
    t_s: Floats
    value: Floats
    look: style.Look


@dataclass(frozen=True)
class Panel:
    """One set of axes; an empty `unit` leaves the y axis unlabelled."""

    title: str
    unit: str
    lines: Sequence[Line]


def stream_look(controller: str, number: int) -> style.Look:
    """Return the look of a controller's `number`-th stream: the first solid, others dashed and dark."""
    look = style.look(controller)
    return look if number == 0 else style.Look(look.name, "#3C4043", look.marker, (3, 1))


def plot_panels(rows: Sequence[Sequence[Panel]], *, share_x: bool = True) -> Figure:
    """Plot rows of panels over time, with one legend entry per label."""
    columns = max(len(row) for row in rows)
    with style.styled():
        figure = Figure(figsize=(3.4 * columns + 0.6, 2.1 * len(rows) + 0.5), layout="constrained")
        axes = figure.subplots(len(rows), columns, squeeze=False, sharex="row" if share_x else False)
        handles: dict[str, Line2D] = {}
        for i, row in enumerate(rows):
            for j, panel in enumerate(row):
                axis = axes[i, j]
                for line in panel.lines:
                    (artist,) = axis.plot(
                        line.t_s, line.value, color=line.look.colour, linestyle=line.look.line, linewidth=0.9
                    )
                    handles.setdefault(line.label, artist)
                axis.set_title(panel.title)
                axis.set_ylim(bottom=0)
                if panel.unit:
                    axis.set_ylabel(panel.unit)
            for j in range(len(row), columns):
                axes[i, j].set_visible(False)
        for axis in axes[-1]:
            axis.set_xlabel("s")
        figure.legend(list(handles.values()), list(handles), loc="outside upper center", ncols=6)
    return figure
