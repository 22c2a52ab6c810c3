"""What the writers of other people's formats have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bentpipe.errors import UserError
from bentpipe.profiles.path import PathView, Steps
from bentpipe.profiles.table import Direction


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
