"""What the writers of other people's formats have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bentpipe.errors import UserError
from bentpipe.profiles.path import PathView, Steps, held
from bentpipe.profiles.table import DIRECTIONS, Direction


@dataclass(frozen=True)
class WriteOptions:
    """How finely a format that takes samples is written.

    Attributes:
        step_s: Time between samples [s].
    """

    step_s: float = 0.1


@dataclass(frozen=True)
class Written:
    """The files that were written, and lines about what the format could not say."""

    files: Sequence[Path]
    notes: Sequence[str] = ()


#: Parts of a step in which one is looked for in which the delay is known.
PARTS = 50

Rtts = NDArray[np.float64]
Knowns = NDArray[np.bool_]


def sibling(path: Path, ending: str) -> Path:
    """`path` with `ending` added to its name."""
    return path.with_name(path.name + ending)


def limited_capacity(view: PathView, direction: Direction) -> Steps | None:
    """The path's capacity; None if nothing ever limits it.

    Raises:
        UserError: It is limited for part of the time only.
    """
    capacity = view.capacity(direction)
    free = np.isinf(capacity.value)
    if not free.any():
        return capacity
    if free[capacity.value > 0].all():
        return None
    at_s = capacity.t_s[int(free.argmax())]
    raise UserError(
        f"{view.profile.name}: {direction} has no capacity limit from {at_s:g} s on; the format needs one all the time"
    )


def grid_s(view: PathView, options: WriteOptions) -> NDArray[np.float64]:
    """Multiples of the step from 0 up to, but without, the Profile's end.

    Raises:
        UserError: A step that is not a usable time.
    """
    if not 0.001 <= options.step_s <= 3600:
        raise UserError(f"step: {options.step_s:g} s; wanted 0.001 to 3600")
    return np.arange(0.0, view.duration_s - 1e-9, options.step_s)


def delay_known(view: PathView, at_s: NDArray[np.float64]) -> Knowns:
    """Whether the delays of both directions are known at each of `at_s`; where there is no path, they are."""
    known = np.ones(at_s.shape, bool)
    for start, end, hops in view.routes():
        inside = (at_s >= start) & (at_s < end)
        for hop in hops:
            for direction in DIRECTIONS:
                if (points := view.points(hop, direction, "delay_s")) is not None:
                    known[inside] &= held(points.t_s, points.valid.astype(np.float64), at_s[inside]) > 0
    return known


def unknown_s(view: PathView) -> float:
    """For how long something of either direction is not known [s]: the longer of the two."""
    return max((1.0 - view.valid(direction).mean()) * view.duration_s for direction in DIRECTIONS)


def filled_notes(view: PathView) -> list[str]:
    """A line for a format without gaps, where the Profile has some."""
    seconds = unknown_s(view)
    if seconds <= 0:
        return []
    return [
        f"for {seconds:.3f} of {view.duration_s:.3f} s of the Profile nothing says the delay (nobody probed, or "
        "all was lost); the format has no gaps, and they are filled with what stands around them"
    ]


def stepped_rtt_ms(view: PathView, at_s: NDArray[np.float64], options: WriteOptions) -> tuple[Rtts, Knowns]:
    """RTT of each step that begins at one of `at_s` [ms], and whether any is known in it.

    It is that of the step's beginning or, where that is not known, of the first moment of the step that is: a gap of a
    tenth of a second is not to become one of a step. Looked for in `PARTS` parts of a step, of 1 ms at least.
    """
    looked, known = at_s.copy(), delay_known(view, at_s)
    parts = max(1, min(PARTS, round(options.step_s / 1e-3)))
    for part in range(1, parts):
        if known.all():
            break
        later = at_s + options.step_s * part / parts
        found = ~known & delay_known(view, later) & (later < view.duration_s)
        looked[found] = later[found]
        known |= found
    return view.rtt_ms(looked), known


def no_path_notes(known: Knowns) -> list[str]:
    """A line for a format that says no path where the delay is not known; `known` of each step."""
    steps = int((~known).sum())
    return [f"{steps} of {known.size} steps are in gaps of the Profile: no path there"] if steps else []
