"""Horizons: which later value of a signal a prediction is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bentpipe.predict.signals import Session

    Floats = NDArray[np.float64]

LONGEST_S = 3600.0


@dataclass(frozen=True)
class Horizon:
    """``5s``: the sample 5 s later. ``next15s``: the mean of the next 15 s.

    Attributes:
        length_s: Length [s].
        is_mean: Whether it is the mean over that time.
    """

    length_s: float
    is_mean: bool = False

    def __str__(self) -> str:
        """Return the text that `parse_horizon` reads."""
        return f"{'next' if self.is_mean else ''}{self.length_s:g}s"

    def steps(self, step_s: float) -> int:
        """Return its number of steps, at least 1."""
        return max(1, round(self.length_s / step_s))

    def window_s(self, t_s: float, step_s: float) -> tuple[float, float]:
        """Return the time that a prediction after the sample of `t_s` is for: start and end [s]."""
        end = t_s + step_s + self.steps(step_s) * step_s
        return (t_s + step_s if self.is_mean else end - step_s), end

    def targets(self, session: Session, step_s: float) -> Floats:
        """Return the later value of each step, shape (n,); NaN where a sample of it is missing or after the end.

        Example:
            >>> from bentpipe.predict.signals import Session
            >>> Horizon(2.0, is_mean=True).targets(Session(np.arange(4.0), np.array([1.0, 2, 4, 8])), 1.0).tolist()
            [3.0, 6.0, nan, nan]
        """
        steps, values = self.steps(step_s), session.values
        result = np.full(len(values), np.nan)
        if len(values) <= steps:
            return result
        if self.is_mean:
            windows = np.lib.stride_tricks.sliding_window_view(values[1:], steps)
            result[: len(windows)] = windows.mean(axis=1)
        else:
            result[:-steps] = values[steps:]
        return result


def parse_horizon(text: str) -> Horizon:
    """Parse ``5s`` or ``next15s``. Raises `UserError`.

    Example:
        >>> str(parse_horizon("next15s")), parse_horizon("5").length_s
        ('next15s', 5.0)
    """
    bare = text.strip().lower()
    number = bare.removeprefix("next").removesuffix("s")
    try:
        length_s = float(number)
    except ValueError:
        length_s = float("nan")
    if not 0 < length_s <= LONGEST_S or length_s % 1:
        expected = "whole seconds up to 3600s, as 5s, or a mean, as next15s"
        raise UserError(shown(text), where="horizon", expected=expected)
    return Horizon(length_s, bare.startswith("next"))
