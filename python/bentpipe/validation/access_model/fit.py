"""The fit: parameters whose windows are distributed as the real ones are.

The loss is, for every site and distance d, the energy distance between the set of model windows and the set of real
ones, 2 E d(m, r) - E d(m, m') - E d(r, r') (Székely and Rizzo 2013), with d / (d + median of d(r, r')) in place of d,
so that no window and no distance outweighs the others. It is zero when both sets are drawn alike. Added: the same for
slots, by each of the classifier's features and by all of them together (windows that are held out are not used); and
the difference of the 1 % quantile of round trips over 10 ms, which ties the site's offset to its floor. Seeds are the
same for every parameter set (common random numbers); the search is a (1+1) evolution strategy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bentpipe.validation.access_model.features import slot_features
from bentpipe.validation.access_model.model import Params, at_site, get, model_windows, put, reduced
from bentpipe.validation.access_model.pings import Floats, Site
from bentpipe.validation.access_model.statistics import Summary, distances, pairs

#: What is fitted, as paths into the table. All are positive and searched by their logarithms.
FITTED = (
    "load.daily_log_amplitude",
    "load.profile_log_sigma",
    "load.slot_log_sigma",
    "delay.grants.up_wait_ms",
    "delay.grants.down_wait_ms",
    "delay.wander.mean_ms",
    "delay.wander.relative_sigma",
    "delay.wander.time_ms",
    "delay.queue.mean_ms",
    "delay.queue.load_power",
    "delay.queue.raised_probability",
    "delay.queue.raised_mean_ms",
    "delay.queue.hump_rate_per_s",
    "delay.queue.hump_mean_ms",
    "delay.unrest.log_sigma",
    "delay.unrest.time_s",
    "delay.unrest.edge_excess",
    "delay.unrest.edge_time_s",
    "delay.interruption.log_sigma",
)
#: What sites have of their own: site → path → value.
Own = dict[str, dict[str, float]]

#: Weight of the slots' energy distance by all features together; each feature by itself has 1.
_TOGETHER = 5.0
#: Windows of the model at each site and step of the search. With 16 the search fits its own seeds: others gave twice
#: the loss.
WINDOWS = 60
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
    found: Floats = 2 * mean_cross - within
    return found


@dataclass(frozen=True)
class Slots:
    """Real slots by their features: shape (slots, features), and the features' scales."""

    x: Floats
    scale: Floats

    @classmethod
    def of(cls, x: Floats) -> Slots:
        """With the median distance between two slots as each feature's scale."""
        one, other = np.triu_indices(len(x), 1)
        return cls(x, np.maximum(np.nanmedian(np.abs(x[one] - x[other]), 0), 1e-6))

    @cached_property
    def within(self) -> tuple[Floats, float]:
        """Mean bounded distance between two of them: by each feature, by all together."""
        return self._mean(self.x, self.x)

    def energy(self, model: Floats) -> float:
        """The bounded energy distance: the sum over features, and `_TOGETHER` times that of all together."""
        across, ours = self._mean(model, self.x), self._mean(model, model)
        each = float(np.nansum(2 * across[0] - ours[0] - self.within[0]))
        return each + _TOGETHER * (2 * across[1] - ours[1] - self.within[1])

    def _mean(self, a: Floats, b: Floats) -> tuple[Floats, float]:
        d = np.abs(a[:, None] - b[None])
        d /= d + self.scale
        # Without pairs of a slot with itself, which are zero.
        share = 1.0 if a is not b else len(a) / (len(a) - 1)
        each: Floats = share * np.nanmean(d, (0, 1))
        return each, share * float(np.sqrt(np.nanmean(d * d, 2)).mean())


@dataclass(frozen=True)
class Target:
    """What the model is fitted to at a site: windows, reduced, and slots by coarse (and fine) features."""

    site: Site
    windows: list[Summary]
    slots: dict[bool, Slots]

    @classmethod
    def of(cls, site: Site) -> Target:
        """The site's fitted windows."""
        measured = [(w.t_s, w.rtt_ms) for w in site.fitted]
        kinds = (False, True) if site.is_dense else (False,)
        return cls(site, reduced(measured, site), {fine: Slots.of(_features(measured, fine=fine)) for fine in kinds})


def _features(windows: Sequence[tuple[Floats, Floats]], *, fine: bool) -> Floats:
    return np.concatenate([slot_features(*w, fine=fine) for w in windows])


def loss(targets: Sequence[Target], params: Params, own: Own) -> float:
    """Sum over sites, distances and features, with the floor's term."""
    total = 0.0
    for target in targets:
        site = target.site
        windows = model_windows(site, site.fitted, at_site(params, own[site.own_of]), WINDOWS, first_seed=0)
        model = reduced(windows, site)
        floors = [float(np.mean([s.rtt_ms[0] for s in of])) for of in (model, target.windows)]
        total += float(np.nansum(energy(model, target.windows))) + abs(floors[0] - floors[1]) / 10
        total += sum(slots.energy(_features(windows, fine=fine)) for fine, slots in target.slots.items())
    return total


def fit(
    sites: Sequence[Site],
    start: Params,
    own: Own,
    steps: int,
    on_step: Callable[[int, float], None],
) -> tuple[Params, Own, float]:
    """Search from `start`; return parameters, what sites have of their own, and the loss.

    Args:
        sites: Campaigns with windows to fit on.
        start: The table to start from.
        own: Site → path → value to start from.
        steps: Evaluations of the loss.
        on_step: Called after each with its number and the best loss.
    """
    targets = [Target.of(site) for site in sites if site.fitted]
    keys = [(site, path) for site, of in own.items() for path in of]
    origin = np.log([*(get(start, path) for path in FITTED), *(own[site][path] for site, path in keys)])

    def unpack(x: Floats) -> tuple[Params, Own]:
        params = copy.deepcopy(start)
        for path, value in zip(FITTED, np.exp(x), strict=False):
            put(params, path, float(value))
        found: Own = {site: {} for site in own}
        for (site, path), value in zip(keys, np.exp(x[len(FITTED) :]), strict=True):
            found[site][path] = float(value)
        return params, found

    def cost(x: Floats) -> float:
        return loss(targets, *unpack(x)) + _PRIOR * float(np.sum((x - origin) ** 2))

    rng = np.random.default_rng(1)
    best_x, best = origin, cost(origin)
    width = 0.2
    for step in range(steps):
        moved = rng.random(origin.size) < 0.5
        x = best_x + width * rng.standard_normal(origin.size) * moved
        found = cost(x)
        if found < best:
            best_x, best, width = x, found, width * 1.3
        else:
            width = max(0.03, width * 0.93)  # about one success in five keeps the width
        on_step(step, best)
    return *unpack(best_x), best
