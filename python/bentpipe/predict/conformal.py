"""Intervals that keep their promise: a margin on each side that follows the share of misses.

Adaptive conformal inference (Gibbs and Candès, NeurIPS 2021), one margin for each side of the 90 % interval, with steps
in units of the interval's mean width. A row's outcome counts only once it is known.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.predict.levels import LEVELS, MEDIAN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

RATE = 0.03
"""Step of a margin, in half widths of the interval per miss; chosen here: 100 rows with twice the promised misses widen
it by 15 %."""

MISS = LEVELS[0]


class OnlineMargin:
    """Margins below and above, in the unit of the predictions (a logarithm, if these are ratios).

    Example:
        >>> margin = OnlineMargin()
        >>> quantiles = np.linspace(-1.0, 1.0, len(LEVELS))
        >>> for _ in range(50):
        ...     margin.learn(quantiles, margin.apply(quantiles), 3.0)  # always above
        >>> margin.below < 0 < margin.above
        True
    """

    def __init__(self, rate: float = RATE) -> None:
        """Create margins of zero."""
        self.rate = rate
        self.below = 0.0
        self.above = 0.0
        self._width = 0.0
        self._rows = 0

    def learn(self, quantiles: Floats, issued: Floats, came: float) -> None:
        """Move the margins by what came, given the quantiles without margins and those issued, shape (levels,)."""
        self._rows += 1
        half = (quantiles[-1] - quantiles[0]) / 2
        self._width += (half - self._width) / min(self._rows, 100)
        step = self.rate * max(self._width, 1e-6)
        # A little at each hit, a lot at each miss: in balance at the promised share.
        self.below += step * ((came < issued[0]) - MISS)
        self.above += step * ((came > issued[-1]) - MISS)

    def apply(self, quantiles: Floats) -> Floats:
        """Return quantiles with margins, shape (levels,): outer ones move by all of it, inner ones in proportion."""
        shares = np.abs(np.array(LEVELS) - 0.5) / 0.45
        moved = quantiles + np.where(np.arange(len(LEVELS)) < MEDIAN, -self.below, self.above) * shares
        return np.maximum.accumulate(moved)


def with_margins(quantiles: Floats, came: Floats, delay: int, margin: OnlineMargin | None = None) -> Floats:
    """Return quantiles with online margins, in sequence.

    Args:
        quantiles: Shape (n, levels).
        came: What came, in the same unit, shape (n,); NaN: not known.
        delay: Rows until what came is known.
        margin: Margins to begin with.
    """
    margin = margin or OnlineMargin()
    waiting: deque[int] = deque()
    result = np.empty_like(quantiles)
    for number, row in enumerate(quantiles):
        while waiting and waiting[0] <= number - delay:
            known = waiting.popleft()
            if np.isfinite(came[known]):
                margin.learn(quantiles[known], result[known], float(came[known]))
        result[number] = margin.apply(row)
        waiting.append(number)
    return result
