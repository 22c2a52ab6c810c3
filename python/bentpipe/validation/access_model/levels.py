"""Level of a site's delay in a session: its load relative to the hour's, and its offset, found on fitted windows.

The model draws a Profile's load anew and has one offset, so its windows have the level of no particular session. Where
windows of a session are available, the model is given their level, as it is given a site's loss rate (`losses.LEVELS`)
and capacity (`capacities.at_level`), which do not change here. Differences between slots, and features within them, are
not given.

A load is tried with the offset that moves the median slot to the fitted ones. The load whose slots are nearest to the
fitted ones, by the fit's own distance (`slot_distance.Slots.energy`), is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bentpipe.validation.access_model.classifier import Windows
from bentpipe.validation.access_model.features import COARSE, slot_features
from bentpipe.validation.access_model.model import Params, at_site, get, model_windows
from bentpipe.validation.access_model.pings import Floats, Site
from bentpipe.validation.access_model.slot_distance import Slots

#: Tried loads, as ln over the table's: from 2.5 to 5 times the model's own spread between Profiles.
LOG_LOADS = tuple(round(0.1 * k, 1) for k in range(-4, 9))
#: Parameters of the delay that depend on the load (`load.rs`).
_BY_LOAD = (
    "delay.grants.up_wait_ms",
    "delay.grants.down_wait_ms",
    "delay.wander.mean_ms",
    "delay.queue.mean_ms",
    "delay.queue.hump_rate_per_s",
)
_OFFSET = "delay.site_offset_ms"
#: Features that an offset moves by its own size.
_MOVED = tuple(COARSE.index(name) for name in ("p5", "median"))


@dataclass(frozen=True)
class Level:
    """Level of the delay at a site in a session.

    Attributes:
        log_load: ln of its load over the table's at the same hour.
        offset_ms: The site's offset.
    """

    log_load: float
    offset_ms: float


def at_load(params: Params, log_load: float) -> Params:
    """Return the delay parameters of a session with a fixed load, by its ln over the hour's; it is not drawn."""
    scale = float(np.exp(log_load))
    changed = {path: get(params, path) * scale for path in _BY_LOAD}
    return at_site(params, changed | {"load.profile_log_sigma": 0.0})


def at_level(params: Params, level: Level) -> Params:
    """Return the parameters with a session's level."""
    return at_site(at_load(params, level.log_load), {_OFFSET: level.offset_ms})


def find(site: Site, params: Params, count: int, first_seed: int) -> Level:
    """Find the level of the site's fitted windows.

    Args:
        site: Its held-out windows are not used.
        params: Parameters of the model, with the site's own.
        count: Windows of the model at each tried load.
        first_seed: Their first seed, the same at each load.
    """
    real = Slots.of(_features([(w.t_s, w.rtt_ms) for w in site.fitted]))
    tried = []
    for log_load in LOG_LOADS:
        made = _features(model_windows(site, site.fitted, at_load(params, log_load), count, first_seed))
        offset_ms = get(params, _OFFSET)
        shift_ms = max(-offset_ms, shift_to(real.x, made))
        made[:, _MOVED] += shift_ms
        tried.append((real.energy(made), Level(log_load, offset_ms + shift_ms)))
    return min(tried, key=lambda one: one[0])[1]


def shift_to(real: Floats, made: Floats) -> float:
    """Return the change of the offset that moves the median slot's p5 and median to, or between, the real ones [ms]."""
    return float(np.mean(np.median(real[:, _MOVED], 0) - np.median(made[:, _MOVED], 0)))


def _features(windows: Windows) -> Floats:
    return np.concatenate([slot_features(*window, fine=False) for window in windows])
