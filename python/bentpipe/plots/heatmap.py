"""Two heatmaps side by side: goodput gain and RTT inflation of a grid of settings (T3P, figures 5b, 5c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.plots.canvas import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from bentpipe.plots.canvas import AxesLike
    from bentpipe.runs.estimates import Estimate
    from bentpipe.tuning.search import Cell, Tuned


#: Share of the largest change up to which black text is legible on the cell's colour.
PALE = 0.7


def plot_heatmaps(tuned: Tuned, *, title: str, ax: AxesLike = None) -> Figure:
    """Plot the goodput gain and the inflation of the RTT's p95 [%], each with its 95 % interval.

    Of a grid with more than two axes the first two are drawn, at the best point's values of the others, or at their
    first values if there is no best point. The best point is framed; points over the limit are hatched.

    Args:
        tuned: The result of `bentpipe.tuning.search.tune`.
        title: Title of the whole.
        ax: Two axes to draw into; None: a new figure.

    Example:
        >>> from pathlib import Path
        >>> from bentpipe.profiles import preset_profile
        >>> from bentpipe.tuning.grid import parse_grid
        >>> from bentpipe.tuning.search import tune
        >>> path = preset_profile("dumbbell:rate=9mbit,loss=1%", 4.0)
        >>> tuned = tune([path], parse_grid("bbr2", ["loss_thresh=0.02,0.2"]), out=Path("out/tuned"))
        >>> figure = plot_heatmaps(tuned, title="BBRv2 with random loss")
    """
    cells = _cells_in_plane(tuned)
    (x_name, xs), (y_name, ys) = _axes(tuned)
    size_in = max(7.0, 1.0 + 1.7 * len(xs)), max(2.6, 1.6 + 0.55 * len(ys))
    with canvas(ax, 2, size_in=size_in, columns=2, sharey=True) as drawing:
        rest = zip((name for name, _ in tuned.grid.axes[2:]), cells[0].point[2:], strict=True)
        at = ", ".join(f"{name}={value}" for name, value in rest)
        drawing.title(title + (f"; at {at}" if at else ""))
        gains = [(cell, cell.score.gain) for cell in cells]
        inflated = [(cell, cell.score.rtt_p95) for cell in cells]
        left, right = drawing.axes
        for axes, values, label, colours in (
            (left, gains, "goodput, relative to the default [%]", "RdYlBu"),
            (right, inflated, "p95 of 1 s RTTs, relative to the default [%]", "RdYlBu_r"),
        ):
            _heatmap(axes, tuned, values, (len(ys), len(xs)), colours)
            if drawing.is_new:
                axes.set_title(label, fontsize="small")
            axes.set_xticks(range(len(xs)), xs)
            axes.set_yticks(range(len(ys)), ys)
            axes.set_xlabel(x_name)
        left.set_ylabel(y_name)
        marks = "framed: the best point" if tuned.best is not None else "no point gains within the limit"
        if drawing.is_new:
            drawing.figure.supxlabel(
                f"{marks}; hatched: {100 * tuned.most_inflation:g} % more RTT or above; below each value its 95 % "
                "interval",
                fontsize="x-small",
            )
    return drawing.figure


def _axes(tuned: Tuned) -> tuple[tuple[str, tuple[str, ...]], tuple[str, tuple[str, ...]]]:
    """Return the horizontal and the vertical axis: the grid's first is horizontal, as in the paper."""
    axes = tuned.grid.axes
    return axes[0], axes[1] if len(axes) > 1 else ("", ("",))


def _cells_in_plane(tuned: Tuned) -> list[Cell]:
    """Return the cells of the drawn plane."""
    rest = (tuned.best or tuned.cells[0]).point[2:]
    return [cell for cell in tuned.cells if cell.point[2:] == rest]


def _heatmap(
    axes: Axes, tuned: Tuned, values: list[tuple[Cell, Estimate | None]], shape: tuple[int, int], colours: str
) -> None:
    from matplotlib.patches import Rectangle

    (_, xs), (_, ys) = _axes(tuned)
    percent: NDArray[np.float64] = np.full(shape, np.nan)
    texts: list[tuple[int, int, str]] = []
    for cell, value in values:
        x = xs.index(cell.point[0])
        y = ys.index(cell.point[1]) if len(tuned.grid.axes) > 1 else 0
        if value is not None:
            percent[y, x] = 100.0 * (value.mean - 1.0)
            texts.append((x, y, f"{percent[y, x]:+.1f}{_ends(value)}"))
        if not cell.score.within(tuned.most_inflation):
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, hatch="///", edgecolor="#00000055", lw=0))
        if tuned.best is not None and cell.point == tuned.best.point:
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor="black", lw=2.0, zorder=3))
    limit = float(np.nanmax(np.abs(percent))) if np.isfinite(percent).any() else 1.0
    axes.imshow(percent, cmap=colours, vmin=-limit or -1.0, vmax=limit or 1.0, aspect="auto", origin="lower")
    axes.grid(visible=False)
    for x, y, text in texts:
        pale = abs(percent[y, x]) < PALE * limit  # both ends of the colours are dark
        colour = "black" if pale or not limit else "white"
        axes.text(x, y, text, ha="center", va="center", fontsize="x-small", color=colour)


def _ends(value: Estimate) -> str:
    """Format both ends [%], as a ratio's interval is not symmetric; empty if there is none."""
    if value.low is None or value.high is None:
        return ""
    low, high = (100.0 * (end - 1.0) for end in (value.low, value.high))
    return f"\n{low:+.0f} … {high:+.0f}"
