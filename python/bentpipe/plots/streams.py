"""Flows over time, one panel each, as in plots of two-stream tests and of long iperf3 runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.plots import style
from bentpipe.plots.canvas import canvas

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from numpy.typing import NDArray

    from bentpipe.plots.canvas import AxesLike

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


def plot_panels(rows: Sequence[Sequence[Panel]], *, share_x: bool = True, ax: AxesLike = None) -> Figure:
    """Plot rows of panels over time, with one legend entry per label.

    Args:
        rows: Panels; a row may be shorter than the longest.
        share_x: The panels of a row have one time axis.
        ax: Axes to draw into, as many in each row as the longest row has panels; None: a new figure.

    Example:
        >>> import numpy as np
        >>> line = Line("BBR", np.arange(3.0), np.array([10.0, 90.0, 95.0]), stream_look("bbr", 0))
        >>> figure = plot_panels([[Panel("One flow", "Mbit/s", [line])]])
    """
    columns = max(len(row) for row in rows)
    size_in = (3.4 * columns + 0.6, 2.1 * len(rows) + 0.5)
    shared = "row" if share_x else False
    with canvas(ax, len(rows) * columns, size_in=size_in, rows=len(rows), columns=columns, sharex=shared) as drawing:
        axes = [drawing.axes[i * columns : (i + 1) * columns] for i in range(len(rows))]
        handles: dict[str, Line2D] = {}
        for i, row in enumerate(rows):
            for j, panel in enumerate(row):
                axis = axes[i][j]
                for line in panel.lines:
                    (artist,) = axis.plot(
                        line.t_s,
                        line.value,
                        color=line.look.colour,
                        linestyle=line.look.line,
                        linewidth=0.9,
                        label=line.label,
                    )
                    handles.setdefault(line.label, artist)
                axis.set_title(panel.title)
                axis.set_ylim(bottom=0)
                if panel.unit:
                    axis.set_ylabel(panel.unit)
            for j in range(len(row), columns):
                axes[i][j].set_visible(False)
        for axis in axes[-1]:
            axis.set_xlabel("Time [s]")
        drawing.legend(list(handles.values()))
    return drawing.figure
