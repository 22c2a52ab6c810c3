"""Bootstrap intervals over Profiles: of a mean, and of the ratio of two paired means."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Resamples.
_DRAWS = 4000


def bootstrap(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """Return the mean of `values` (one per Profile) and its bootstrap interval; NaN without values."""
    sample = np.asarray(values, np.float64)
    if not len(sample):
        return math.nan, math.nan, math.nan
    draws = np.random.default_rng(0).choice(sample, (_DRAWS, len(sample))).mean(axis=1)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(sample.mean()), float(low), float(high)


def bootstrap_ratio(above: Sequence[float], below: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """Return the ratio of the means of two paired samples and its bootstrap interval; NaN without values."""
    a, b = np.asarray(above, np.float64), np.asarray(below, np.float64)
    if not len(a) or b.mean() == 0:
        return math.nan, math.nan, math.nan
    picks = np.random.default_rng(0).integers(0, len(a), (_DRAWS, len(a)))
    low, high = np.quantile(a[picks].mean(axis=1) / b[picks].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return float(a.mean() / b.mean()), float(low), float(high)
