"""The fit: parameters whose windows are distributed as the real ones are.

The loss is, for every site and distance d, the energy distance between the set of model windows and the set of real
ones, 2 E d(m, r) - E d(m, m') - E d(r, r') (Székely and Rizzo 2013), with d / (d + median of d(r, r')) in place of d,
so that no window and no distance outweighs the others. It is zero when both sets are drawn alike. Added: the difference
of the 1 % quantile of round trips over 10 ms, which ties the site's offset to its floor. Seeds are the same for every
parameter set (common random numbers); the search is a (1+1) evolution strategy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bentpipe.validation.access_model.model import Params, model_windows, reduced, with_offset
from bentpipe.validation.access_model.pings import Floats, Site
from bentpipe.validation.access_model.statistics import Summary, distances, pairs, summarise

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
)
#: Windows of the model at each site and step of the search.
WINDOWS = 32
#: Pull towards the start, per unit of squared log distance: undetermined directions stay put.
_PRIOR = 0.004


def get(params: Params, path: str) -> float:
    """The value at `path`."""
    at: Any = params
    for key in path.split("."):
        at = at[key]
    return float(at)


def put(params: Params, path: str, value: float) -> None:
    """Set the value at `path`."""
    *above, last = path.split(".")
    at: Any = params
    for key in above:
        at = at[key]
    at[last] = value


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


def loss(sites: Sequence[Site], params: Params, offsets_ms: dict[str, float]) -> float:
    """Sum over sites and distances, with the floor's term."""
    total = 0.0
    for site in sites:
        real = [summarise(w.t_s, w.rtt_ms, site.lags_s) for w in site.fitted]
        at_site = with_offset(params, offsets_ms[site.offset_of])
        model = reduced(model_windows(site, site.fitted, at_site, WINDOWS, first_seed=0), site)
        floors = [float(np.mean([s.rtt_ms[0] for s in of])) for of in (model, real)]
        total += float(np.nansum(energy(model, real))) + abs(floors[0] - floors[1]) / 10
    return total


def fit(
    sites: Sequence[Site],
    start: Params,
    offsets_ms: dict[str, float],
    steps: int,
    on_step: Callable[[int, float], None],
) -> tuple[Params, dict[str, float], float]:
    """Search from `start`; return parameters, site offsets [ms] and the loss.

    Args:
        sites: Campaigns with windows to fit on.
        start: The table to start from.
        offsets_ms: Site → offset to start from [ms].
        steps: Evaluations of the loss.
        on_step: Called after each with its number and the best loss.
    """
    sites = [site for site in sites if site.fitted]
    keys = sorted(offsets_ms)
    origin = np.log([*(get(start, path) for path in FITTED), *(offsets_ms[key] for key in keys)])

    def unpack(x: Floats) -> tuple[Params, dict[str, float]]:
        params = copy.deepcopy(start)
        for path, value in zip(FITTED, np.exp(x), strict=False):
            put(params, path, float(value))
        return params, dict(zip(keys, np.exp(x[len(FITTED) :]).tolist(), strict=True))

    def cost(x: Floats) -> float:
        return loss(sites, *unpack(x)) + _PRIOR * float(np.sum((x - origin) ** 2))

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
