"""A Profile over time: delay with slot edges, handovers and reconfigurations, capacity, loss."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.errors import UserError
from bentpipe.files import atomic_write
from bentpipe.plots.canvas import canvas
from bentpipe.plots.style import HANDOVER, SLOT, styled, widened
from bentpipe.profiles.origin import slot_starts_s
from bentpipe.profiles.path import PathView, Steps, changes_hop, held
from bentpipe.profiles.show import MAX_SAMPLES
from bentpipe.profiles.table import DIRECTIONS, Direction
from bentpipe.times import format_utc

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from bentpipe._native import Profile
    from bentpipe.plots.canvas import AxesLike

#: Colours of the two directions (Okabe and Ito, as in `bentpipe.plots.style`); dashes distinguish them in black and
#: white.
COLOURS = {"down": "#0072B2", "up": "#E69F00"}
DASHES: dict[str, Any] = {"down": "-", "up": (0, (4, 1.5))}
#: Colours of unknown values and of times without a path.
GAP, NO_PATH = "#E8EAED", "#F6D5CC"
#: Interval of delay samples [s], and largest number of columns, each drawn as median and span.
STEP_S, COLUMNS = 0.005, 1200
#: Largest number of slot edges or handovers drawn: more would be a grey area.
MOST_LINES = 120
#: Largest number of changes of the loss drawn individually; above it, means are drawn.
MOST_EPISODES = 400
#: Line styles of handovers and of reconfigurations without handover.
HANDOVER_LINE: dict[str, Any] = {"color": HANDOVER, "linewidth": 0.8, "linestyle": (0, (2, 2))}
RECONFIGURATION_LINE: dict[str, Any] = {"color": HANDOVER, "linewidth": 0.8, "linestyle": (0, (1, 4))}

ENDINGS = ("png", "svg", "pdf")


def save_profile_figure(profile: Profile, path: str | os.PathLike[str]) -> None:
    """Draw `profile` and write the figure in the format of the file's suffix: ``.png``, ``.svg`` or ``.pdf``.

    Raises:
        UserError: Another suffix, or a file that cannot be written.
    """
    ending = Path(path).suffix.lstrip(".").lower()
    if ending not in ENDINGS:
        raise UserError(f"{path}: no figure; expected a name that ends in .png, .svg or .pdf")
    undated = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[ending]
    with styled(), atomic_write(path) as file:
        plot_profile(profile).savefig(file, format=ending, metadata=undated)


def plot_profile(profile: Profile, *, ax: AxesLike = None) -> Figure:
    """Plot one-way delay [ms], capacity [Mbit/s] and loss [%] of `profile` over time [s], in both directions.

    Args:
        profile: The Profile.
        ax: Three axes to draw into; None: a new figure.

    Example:
        >>> from bentpipe.profiles import preset_profile
        >>> figure = plot_profile(preset_profile("dumbbell:rate=20mbit", 10.0))
    """
    with canvas(ax, 3, size_in=(9, 6.2), rows=3, sharex=True, height_ratios=(3, 2, 1)) as drawing:
        _draw(profile, *drawing.axes)
    return drawing.figure


def _draw(profile: Profile, delay: Axes, capacity: Axes, loss: Axes) -> None:
    view = PathView(profile)
    for axes in (delay, capacity, loss):
        _background(axes, view)
    losses = {direction: _without_outages(view, direction) for direction in DIRECTIONS}
    mean_s = 0.0
    if max(steps.t_s.size for steps in losses.values()) > MOST_EPISODES:
        mean_s = max(1.0, float(np.ceil(view.duration_s / COLUMNS)))
        losses = {direction: _averaged(steps, mean_s) for direction, steps in losses.items()}
    limited = False
    for direction in DIRECTIONS:
        _delay(delay, view, direction)
        limited |= _steps(capacity, view.capacity(direction), direction, 1e-6)
        _steps(loss, losses[direction], direction, 100.0)
    counts = [
        f"{len(at)} {name}{'' if len(at) == 1 else 's'}"
        for name, at in zip(("handover", "reconfiguration"), _handovers(view), strict=True)
        if at
    ]
    delay.set_title(_short(profile.name) + (f" ({', '.join(counts)})" if counts else ""))
    delay.set_ylabel("one-way delay [ms]")
    delay.set_ylim(bottom=0)
    capacity.set_ylabel("capacity [Mbit/s]")
    capacity.set_ylim(bottom=0)
    if not limited:
        capacity.text(0.5, 0.5, "no capacity limit", transform=capacity.transAxes, ha="center", va="center")
        capacity.set_yticks([])
    loss.set_ylabel(f"loss [%],\nmean of {mean_s:g} s" if mean_s else "loss [%]")
    loss.set_ylim(bottom=0, top=max(1.0, loss.get_ylim()[1]))
    loss.set_xlabel(f"time [s since {format_utc(profile.start_unix_ns)}]")
    for axes in (delay, capacity, loss):
        axes.set_xlim(0, profile.duration_s)
    delay.legend(*_legend(view), loc="lower right", bbox_to_anchor=(1, 1), borderpad=0.1, ncols=5)


def _delay(axes: Axes, view: PathView, direction: Direction) -> None:
    """Draw each column's median as a line and its span as a band, so that a 5 ms spike is visible in an hour too."""
    step = max(STEP_S, view.duration_s / MAX_SAMPLES)
    per_column = max(1, int(np.ceil(view.duration_s / step / COLUMNS)))
    count = max(2, int(view.duration_s / step) // per_column)
    times = (np.arange(count * per_column) + 0.5) * view.duration_s / (count * per_column)
    valid = view.valid(direction)
    values = view.profile.delay_ms(direction, times)
    values[held(valid.t_s, valid.value, times) == 0] = np.nan
    values = values.reshape(count, per_column)
    known = ~np.isnan(values).all(axis=1)
    middle = times.reshape(count, per_column).mean(axis=1)
    low, median, high = np.full((3, count), np.nan)
    low[known], high[known] = np.nanmin(values[known], axis=1), np.nanmax(values[known], axis=1)
    median[known] = np.nanmedian(values[known], axis=1)
    axes.fill_between(middle, low, high, color=COLOURS[direction], alpha=0.25, linewidth=0)
    axes.plot(middle, median, color=COLOURS[direction], linestyle=DASHES[direction], linewidth=1.1)


def _steps(axes: Axes, steps: Steps, direction: Direction, unit: float) -> bool:
    """Draw a stepped line; return whether there is one: none if no value is finite."""
    values = np.where(np.isfinite(steps.value), steps.value * unit, np.nan)
    if np.isnan(values).all() or (direction != "down" and not values.any() and not axes.lines):
        return False
    times, values = _thinned(np.append(steps.t_s, steps.end_s), np.append(values, values[-1]))
    axes.plot(
        times, values, drawstyle="steps-post", color=COLOURS[direction], linestyle=DASHES[direction], linewidth=1.0
    )
    return True


def _thinned(
    times: NDArray[np.float64], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Reduce neighbouring steps to their minimum and maximum if there are more than a figure can show."""
    group = len(times) // (4 * COLUMNS)
    if group < 4:
        return times, values
    cut = len(times) // group * group
    blocks = values[:cut].reshape(-1, group)
    starts = times[:cut].reshape(-1, group)
    both = np.stack([blocks.min(axis=1), blocks.max(axis=1)], axis=1).ravel()
    return np.append(np.stack([starts[:, 0], starts[:, group // 2]], axis=1).ravel(), times[-1]), np.append(
        both, values[-1]
    )


def _without_outages(view: PathView, direction: Direction) -> Steps:
    """Return the loss without times that have no path, which the background marks."""
    loss = view.loss(direction)
    value = loss.value.copy()
    for start, end, hops in view.routes():
        if not hops:
            value[(loss.t_s >= start) & (loss.t_s < end)] = np.nan
    return Steps(loss.t_s, value, loss.end_s)


def _averaged(steps: Steps, mean_s: float) -> Steps:
    """Return means over equal times: thousands of short episodes drawn individually would be one block."""
    edges_s = np.append(np.arange(0.0, steps.end_s, mean_s), steps.end_s)
    known = Steps(steps.t_s, np.isfinite(steps.value).astype(np.float64), steps.end_s).means(edges_s)
    lost = Steps(steps.t_s, np.nan_to_num(steps.value), steps.end_s).means(edges_s)
    with np.errstate(invalid="ignore"):  # a time without a path
        return Steps(edges_s[:-1], np.where(known > 0, lost / known, np.nan), steps.end_s)


def _background(axes: Axes, view: PathView) -> None:
    """Draw gaps and outages as areas, slot edges, handovers and reconfigurations as lines."""
    no_path = [(start, end) for start, end, hops in view.routes() if not hops]
    for spans, colour in ((_gaps(view), GAP), (no_path, NO_PATH)):
        for start, end in widened(spans, view.duration_s):
            axes.axvspan(start, end, color=colour, linewidth=0)
    edges = slot_starts_s(view.metadata)
    if len(edges) <= MOST_LINES:
        for at in edges:
            axes.axvline(at, color=SLOT, linewidth=0.6, zorder=0.5)
    for times, line in zip(_handovers(view), (HANDOVER_LINE, RECONFIGURATION_LINE), strict=True):
        if len(times) <= MOST_LINES:
            for at in times:
                axes.axvline(at, **line, zorder=0.6)


def _handovers(view: PathView) -> tuple[list[float], list[float]]:
    """Return the times of handovers and of reconfigurations without handover [s]."""
    events = view.handovers()
    handovers, others = ([e["at_ns"] / 1e9 for e in events if changes_hop(e) is changed] for changed in (True, False))
    return handovers, others


def _gaps(view: PathView) -> list[tuple[float, float]]:
    """Return the spans in which a series in use is unknown: from, to [s]."""
    spans = []
    for direction in DIRECTIONS:
        valid = view.valid(direction)
        ends = np.append(valid.t_s[1:], valid.end_s)
        spans += [(float(a), float(b)) for a, b, ok in zip(valid.t_s, ends, valid.value, strict=True) if not ok]
    return sorted(set(spans))


def _legend(view: PathView) -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: list[tuple[Any, str]] = [
        (Line2D([], [], color=COLOURS[d], linestyle=DASHES[d]), d) for d in ("down", "up")
    ]
    for times, line, name in zip(
        _handovers(view), (HANDOVER_LINE, RECONFIGURATION_LINE), ("handover", "reconfiguration"), strict=True
    ):
        if times:
            entries.append((Line2D([], [], **line), name))
    if any(not hops for _, _, hops in view.routes()):
        entries.append((Patch(color=NO_PATH), "no path"))
    if _gaps(view):
        entries.append((Patch(color=GAP), "not known"))
    handles, labels = zip(*entries, strict=True)
    return list(handles), list(labels)


def _short(name: str, most: int = 50) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
