"""An alarm for predictions that have become worse: the signal is no longer what the model was trained on."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 15
"""Outcomes whose mean error is one observation: errors of successive seconds are alike, those of slots hardly."""

DELTA = 0.002
"""Confidence of ADWIN, as its authors use it."""

LEAST_BLOCKS = 20
"""Blocks before the first test; chosen here: 5 minutes."""

LEAST_OUTCOMES = BLOCK * LEAST_BLOCKS
"""Outcomes before the first test."""

MOST_BLOCKS = 10_000
"""Blocks that are kept: 42 h of outcomes at 1 Hz."""

LEAST_RATIO = 1.1
"""Smallest rise of the mean error that is reported; chosen here: less is no reason to train again."""

SMALLEST = 1e-9
"""Mean error below which all count the same: of a model that is never wrong."""


@dataclass(frozen=True)
class Drift:
    """Errors that have risen.

    Attributes:
        before: Typical error before (relative, if the model predicts ratios): geometric mean of the blocks' means.
        after: Typical error since.
        outcomes: Number of outcomes since the rise, as the alarm dates it.
    """

    before: float
    after: float
    outcomes: int


class DriftAlarm:
    """Follows errors and tells when they have risen (ADWIN: Bifet and Gavaldà, SDM 2007, in the library river).

    A window of mean errors is cut where its two parts differ more than chance allows. The logarithms of the means are
    compared, so that the size of errors does not matter. A cut after which errors are smaller is no alarm.

    Example:
        >>> alarm = DriftAlarm()
        >>> errors = [0.05, 0.06, 0.04] * 1000 + [0.15, 0.18, 0.12] * 300
        >>> drifts = [drift for error in errors if (drift := alarm.add(error)) is not None]
        >>> [f"{drift.before:.2f} to {drift.after:.2f}" for drift in drifts][:1]
        ['0.05 to 0.15']
    """

    def __init__(self, delta: float = DELTA) -> None:
        """Begin without history. Raises `UserError`: the library is not installed."""
        try:
            from river.drift import ADWIN
        except ImportError:
            raise UserError("needs river", where="drift", hint="pip install 'bentpipe[predict]'") from None
        self._new: Callable[[], Any] = lambda: ADWIN(  # type: ignore[no-untyped-call] # river has no types
            delta=delta, clock=1, min_window_length=4, grace_period=LEAST_BLOCKS
        )
        self._window: Any = self._new()
        self._levels: deque[float] = deque(maxlen=MOST_BLOCKS)
        self._sum = 0.0
        self._count = 0

    def add(self, error: float) -> Drift | None:
        """Add the size of an error; return the rise of errors that it confirms, or None."""
        self._sum += error
        self._count += 1
        if self._count < BLOCK:
            return None
        level = math.log(max(self._sum / self._count, SMALLEST))
        self._sum, self._count = 0.0, 0
        self._levels.append(level)
        self._window.update(level)
        return self._split() if self._window.drift_detected else None

    def _split(self) -> Drift | None:
        """Date the change where two means explain the levels best, and go on with those after it."""
        levels = np.array(self._levels)
        if len(levels) < 2:
            return None
        sizes = np.arange(1, len(levels))
        sums = np.cumsum(levels)
        gaps = (sums[-1] - sums[:-1]) / (len(levels) - sizes) - sums[:-1] / sizes
        at = int(np.argmax(gaps**2 * sizes * (len(levels) - sizes))) + 1
        before, after = math.exp(levels[:at].mean()), math.exp(levels[at:].mean())
        self._window, self._levels = self._new(), deque(levels[at:].tolist(), maxlen=MOST_BLOCKS)
        for level in self._levels:
            self._window.update(level)
        if after < LEAST_RATIO * before:
            return None
        return Drift(before, after, (len(levels) - at) * BLOCK)
