"""The rank test: a window of the model must be as near to a real one as real ones are to each other.

Two halves for each distance, both against the distances between the real windows of a site:

- *near*: the median distance from the model to the held-out windows is at most their 90th percentile;
- *spread*: the median distance between windows of the model lies between their 10th and 90th percentiles. Without it a
  replay of one real window would pass, since it is a real window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TypeVar

import numpy as np

from bentpipe.validation.access_model.pings import Floats
from bentpipe.validation.access_model.statistics import NAMES, Summary, distances, pairs

T = TypeVar("T")


@dataclass(frozen=True)
class Rank:
    """Result for one distance at one site.

    Attributes:
        statistic: Its name.
        real_p10: 10th percentile of the distances between real windows.
        real_p50: Their median.
        real_p90: Their 90th percentile.
        near: Median distance from the model to held-out windows.
        covered: Share of those distances within `real_p90`; 0.9 if model and reality were equal.
        spread: Median distance between windows of the model.
    """

    statistic: str
    real_p10: float
    real_p50: float
    real_p90: float
    near: float
    covered: float
    spread: float

    @property
    def is_near(self) -> bool:
        """Whether the half *near* passes."""
        return self.near <= self.real_p90

    @property
    def passes(self) -> bool:
        """Whether both halves pass."""
        return self.is_near and self.real_p10 <= self.spread <= self.real_p90


def rank(real: Sequence[Summary], held_out: Sequence[Summary], model: Sequence[Summary]) -> list[Rank]:
    """Rank by every distance that the site's sampling defines."""
    return ranked(NAMES, pairs(real), distances(model, held_out), pairs(model))


def ranked(names: Sequence[str], between: Floats, to_model: Floats, within: Floats) -> list[Rank]:
    """Rank from distances, a row for each name: real to real, model to held-out, model to model; NaN: undefined."""
    ranks = []
    for i, name in enumerate(names):
        near: Floats = to_model[i][~np.isnan(to_model[i])]
        if near.size == 0:
            continue
        low, mid, high = np.nanpercentile(between[i], [10, 50, 90])
        ranks.append(
            Rank(
                name,
                float(low),
                float(mid),
                float(high),
                float(np.median(near)),
                float((near <= high).mean()),
                float(np.nanmedian(within[i])),
            )
        )
    return ranks


def rank_by(
    distance: Callable[[T, T], Floats],
    names: Sequence[str],
    real: Sequence[T],
    held_out: Sequence[T],
    model: Sequence[T],
) -> list[Rank]:
    """Rank anything with a distance: `distance` returns one number for each of `names`."""

    def every(couples: Iterable[tuple[T, T]]) -> Floats:
        return np.array([distance(a, b) for a, b in couples]).T

    return ranked(names, every(combinations(real, 2)), every(product(model, held_out)), every(combinations(model, 2)))
