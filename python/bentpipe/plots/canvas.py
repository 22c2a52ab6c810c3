"""The axes that a plot function draws into: those of the caller, or the ones of a new figure."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bentpipe.errors import UserError, printable
from bentpipe.plots import style

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    AxesLike: TypeAlias = Axes | Sequence[Axes] | NDArray[Any] | None
    """Argument `ax` of a plot function: one axes, several in reading order in any shape, or None for a new figure."""


@dataclass(frozen=True)
class Canvas:
    """A figure and the axes to draw into, in reading order. `is_new`: the plot function made the figure."""

    figure: Figure
    axes: list[Axes]
    is_new: bool

    def legend(self, handles: Sequence[Any]) -> None:
        """Add a legend of the whole plot: above a new figure's axes, else in the first given axes with a line."""
        if self.is_new:
            style.legend_above(self.figure, handles)
        elif handles:
            handle_axes = {getattr(handle, "axes", None) for handle in handles}
            next((axis for axis in self.axes if axis in handle_axes), self.axes[0]).legend(handles=list(handles))

    def title(self, text: str) -> None:
        """Set a title of the whole plot: a new figure's, else the one of the first given axes."""
        if self.is_new:
            self.figure.suptitle(text)
        else:
            self.axes[0].set_title(text)


@contextmanager
def canvas(
    ax: AxesLike,
    count: int = 1,
    *,
    size_in: tuple[float, float],
    rows: int = 1,
    columns: int = 1,
    **layout: Any,  # noqa: ANN401 -- those of Matplotlib
) -> Iterator[Canvas]:
    """Apply bentpipe's style inside this block, and yield the caller's axes or those of a new figure.

    A new figure belongs to no window and to no pyplot state. No text in the axes is taken for a formula afterwards.

    Args:
        ax: The caller's axes; None: a new figure.
        count: Number of axes that the plot draws into; a new figure may have more.
        size_in: Width and height of a new figure [inch].
        rows: Rows of axes in a new figure.
        columns: Columns of axes in a new figure.
        layout: Further arguments of a new figure's `subplots`.

    Raises:
        UserError: `ax` is not `count` axes.
    """
    from matplotlib.figure import Figure

    with style.styled():
        if ax is None:
            figure = Figure(figsize=size_in, layout="constrained")
            new_axes = figure.subplots(rows, columns, squeeze=False, **layout)
            result = Canvas(figure, new_axes.ravel().tolist(), is_new=True)
        else:
            result = _given(ax, count)
        yield result
        plain_text([result.figure] if result.is_new else result.axes)


def _given(ax: Axes | Sequence[Axes] | NDArray[Any], count: int) -> Canvas:
    from matplotlib.axes import Axes

    axes = np.ravel(np.asarray(ax, dtype=object)).tolist()
    if len(axes) != count or not all(isinstance(axis, Axes) for axis in axes):
        number = f"{len(axes)} axes" if all(isinstance(axis, Axes) for axis in axes) else type(ax).__name__
        remedy = "pyplot.subplots()[1]" if count == 1 else f"pyplot.subplots({count})[1]"
        raise UserError(f"ax: {number}; expected {count} Matplotlib axes; try {remedy}, or None for a new figure")
    figure = axes[0].get_figure(root=True)
    if figure is None:
        raise UserError("ax: removed from its figure; expected axes of a figure")
    return Canvas(figure, axes, is_new=False)


def plain_text(artists: Iterable[Artist]) -> None:
    """Make all text in axes or figures literal: names come from files, and a $ in one starts no formula.

    The setting of the style does not reach titles and ticks that existed before. Control characters and lone
    surrogates become U+FFFD; names on ticks must be `printable` before, because their text is set at each drawing.
    """
    from matplotlib.text import Text

    for artist in artists:
        for text in artist.findobj(Text):
            assert isinstance(text, Text)
            text.set_parse_math(False)
            text.set_usetex(False)
            text.set_text(printable(text.get_text()))
