"""Options, results and sampling that the writers of other tools' formats share."""

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
    """Options of formats that hold samples.

    Attributes:
        step_s: Time between samples [s].
    """

    step_s: float = 0.1


@dataclass(frozen=True)
class Written:
    """The files that were written, and notes about content that the format cannot hold."""

    files: Sequence[Path]
    notes: Sequence[str] = ()


#: Number of parts of a step that are searched for a known delay.
PARTS = 50

Rtts = NDArray[np.float64]
Knowns = NDArray[np.bool_]


def sibling(path: Path, ending: str) -> Path:
    """Return `path` with `ending` added to its name."""
    return path.with_name(path.name + ending)


def limited_capacity(view: PathView, direction: Direction) -> Steps | None:
    """Return the path's capacity; None if it never has a limit.

    Raises:
        UserError: The capacity has a limit for part of the time only.
    """
    capacity = view.capacity(direction)
    free = np.isinf(capacity.value)
    if not free.any():
        return capacity
    if free[capacity.value > 0].all():
        return None
    at_s = capacity.t_s[int(free.argmax())]
    raise UserError(
        f"{direction} has no capacity limit from {at_s:g} s on; the format needs one all the time",
        where=view.profile.name,
    )


def grid_s(view: PathView, options: WriteOptions) -> NDArray[np.float64]:
    """Return the multiples of the step [s] from 0 to before the Profile's end.

    Raises:
        UserError: The step is out of range.
    """
    if not 0.001 <= options.step_s <= 3600:
        raise UserError(f"{options.step_s:g} s", where="step", expected="0.001 to 3600")
    return np.arange(0.0, view.duration_s - 1e-9, options.step_s)


def delay_known(view: PathView, at_s: NDArray[np.float64]) -> Knowns:
    """Return whether the delays of both directions are known at each of `at_s` [s]; true where there is no path."""
    known = np.ones(at_s.shape, bool)
    for start, end, hops in view.routes():
        inside = (at_s >= start) & (at_s < end)
        for hop in hops:
            for direction in DIRECTIONS:
                if (points := view.points(hop, direction, "delay_s")) is not None:
                    known[inside] &= held(points.t_s, points.valid.astype(np.float64), at_s[inside]) > 0
    return known


def unknown_s(view: PathView) -> float:
    """Return how long the path is unknown [s], for the direction in which that is longer."""
    return max((1.0 - view.valid(direction).mean()) * view.duration_s for direction in DIRECTIONS)


def filled_notes(view: PathView) -> list[str]:
    """Return a note about filled gaps, for a format that cannot hold gaps."""
    seconds = unknown_s(view)
    if seconds <= 0:
        return []
    return [
        f"the delay is unknown for {seconds:.3f} of {view.duration_s:.3f} s of the Profile (no probes, or all were "
        "lost); the format has no gaps, and they are filled with the neighbouring values"
    ]


def stepped_rtt_ms(view: PathView, at_s: NDArray[np.float64], options: WriteOptions) -> tuple[Rtts, Knowns]:
    """Return the RTT [ms] of each step that begins at one of `at_s` [s], and whether it is known.

    It is the RTT at the begin of the step or, if that is unknown, at the first time of the step where it is known, so
    that a gap of 0.1 s does not become a gap of a whole step. Each step is searched in `PARTS` parts of at least 1 ms.
    """
    sampled_s, known = at_s.copy(), delay_known(view, at_s)
    parts = max(1, min(PARTS, round(options.step_s / 1e-3)))
    for part in range(1, parts):
        if known.all():
            break
        later = at_s + options.step_s * part / parts
        newly_known = ~known & delay_known(view, later) & (later < view.duration_s)
        sampled_s[newly_known] = later[newly_known]
        known |= newly_known
    return view.rtt_ms(sampled_s), known


def no_path_notes(known: Knowns) -> list[str]:
    """Return a note about steps in gaps, for a format that marks them as no path; `known` is per step."""
    steps = int((~known).sum())
    return [f"{steps} of {known.size} steps are in gaps of the Profile: no path there"] if steps else []
