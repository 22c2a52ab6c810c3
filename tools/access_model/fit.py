"""The fit: parameters whose windows are distributed as the real ones are.

The model is drawn as the product draws it: one table for all sites, the level of each window drawn anew. The loss adds

- at Victoria, for each distance d between windows, the energy distance between the set of model windows and the set of
  real ones, 2 E d(m, r) - E d(m, m') - E d(r, r') (Székely and Rizzo 2013), with d / (d + median of d(r, r')) in place
  of d, so that no window and no distance outweighs the others; the same between slots, by each of the classifier's
  features and by all of them together; and the difference of the 1 % quantile of RTTs over 10 ms;
- at FjordLink, the energy distance between ten-minute blocks of slot means, thrice, and the distance W1 of all slot
  means over 5 ms.

Held-out windows and blocks are not used, nor are Seattle's: its session is of September 2023 and busier than any other.
Seeds are the same for every parameter set (common random numbers); the search is a (1+1) evolution strategy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bentpipe.validation.access_model import slot_means
from bentpipe.validation.access_model.features import slot_features
from bentpipe.validation.access_model.model import FITTED, Params, get, model_windows, put, reduced
from bentpipe.validation.access_model.pings import Floats, Site
from bentpipe.validation.access_model.slot_distance import Slots
from bentpipe.validation.access_model.slot_means import Block, Days
from bentpipe.validation.access_model.statistics import Summary, distances, pairs

#: Windows and blocks of the model at each step of the search. With 16 the search fits its own seeds: others gave twice
#: the loss.
WINDOWS, BLOCKS = 60, 36
#: Weight of the blocks' energy distance, and what the distance of slot means and the floor's are divided by [ms].
_BLOCKS, _MEANS_MS, _FLOOR_MS = 3.0, 5.0, 10.0
#: Pull towards the start, per unit of squared log distance: undetermined directions stay put.
_PRIOR = 0.004


def _bounded(d: Floats, scale: Floats) -> Floats:
    bounded: Floats = d / (d + scale[:, None, None])
    return bounded


def _mean_pair(d: Floats) -> Floats:
    """Mean over different windows; NaN where the distance is not defined."""
    n = d.shape[1]
    mean: Floats = np.where(np.isnan(d).all((1, 2)), np.nan, np.nansum(d, (1, 2)) / (n * (n - 1)))
    return mean


def energy(model: Sequence[Summary], real: Sequence[Summary]) -> Floats:
    """The bounded energy distance, by distance; NaN where not defined."""
    scale = np.array([np.nan if np.isnan(row).all() else np.nanmedian(row) for row in pairs(real)])
    cross = _bounded(distances(model, real), scale)
    mean_cross = np.array([np.nan if np.isnan(row).all() else np.nanmean(row) for row in cross])
    within = _mean_pair(_bounded(distances(model, model), scale)) + _mean_pair(_bounded(distances(real, real), scale))
    distance: Floats = 2 * mean_cross - within
    return distance


@dataclass(frozen=True)
class Target:
    """What the model is fitted to: a dense campaign's windows, reduced, its slots by features, and a dish's blocks."""

    site: Site
    windows: list[Summary]
    slots: Slots
    blocks: list[Block]

    @classmethod
    def of(cls, site: Site, days: Days) -> Target:
        """The fitted windows and blocks."""
        measured = [(w.t_s, w.rtt_ms) for w in site.fitted]
        return cls(site, reduced(measured, site), Slots.of(_features(measured)), days.fitted)


def _features(windows: Sequence[tuple[Floats, Floats]]) -> Floats:
    return np.concatenate([slot_features(*w, fine=False) for w in windows])


def _block_energy(model: Sequence[Block], real: Sequence[Block]) -> float:
    """The bounded energy distance of blocks, summed over their distances."""

    def every(a: Sequence[Block], b: Sequence[Block]) -> Floats:
        return np.moveaxis(np.array([[slot_means.distance(one, other) for other in b] for one in a]), -1, 0)

    between = every(real, real)
    scale: Floats = np.median(between[:, *np.triu_indices(len(real), 1)], axis=1)
    cross = _bounded(every(model, real), scale).mean((1, 2))
    within = _mean_pair(_bounded(every(model, model), scale)) + _mean_pair(_bounded(between, scale))
    return float((2 * cross - within).sum())


def loss(target: Target, params: Params) -> float:
    """Sum over the terms that this module's head names."""
    site = target.site
    windows = model_windows(site, site.fitted, params, WINDOWS, first_seed=0)
    model = reduced(windows, site)
    floors = [float(np.mean([s.rtt_ms[0] for s in of])) for of in (model, target.windows)]
    total = float(np.nansum(energy(model, target.windows))) + abs(floors[0] - floors[1]) / _FLOOR_MS
    total += target.slots.energy(_features(windows))
    made = slot_means.model_blocks(target.blocks, params, BLOCKS, first_seed=1000)
    levels = (np.arange(200) + 0.5) / 200
    means = [np.quantile(np.concatenate([b.means_ms for b in of]), levels) for of in (made, target.blocks)]
    return total + _BLOCKS * _block_energy(made, target.blocks) + float(np.abs(means[0] - means[1]).mean()) / _MEANS_MS


def fit(target: Target, start: Params, steps: int, on_step: Callable[[int, float], None]) -> tuple[Params, float]:
    """Search from `start`; return parameters and the loss.

    Args:
        target: What they are fitted to.
        start: The table to start from.
        steps: Evaluations of the loss.
        on_step: Called after each with its number and the best loss.
    """
    origin = np.log([get(start, path) for path in FITTED])

    def unpack(x: Floats) -> Params:
        params = copy.deepcopy(start)
        for path, value in zip(FITTED, np.exp(x), strict=True):
            put(params, path, float(value))
        return params

    def cost(x: Floats) -> float:
        return loss(target, unpack(x)) + _PRIOR * float(np.sum((x - origin) ** 2))

    rng = np.random.default_rng(1)
    best_x, best = origin, cost(origin)
    width = 0.2
    for step in range(steps):
        moved = rng.random(origin.size) < 0.5
        x = best_x + width * rng.standard_normal(origin.size) * moved
        new_cost = cost(x)
        if new_cost < best:
            best_x, best, width = x, new_cost, width * 1.3
        else:
            width = max(0.03, width * 0.93)  # about one success in five keeps the width
        on_step(step, best)
    return unpack(best_x), best
