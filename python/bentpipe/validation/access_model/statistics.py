"""Eight distances between two windows of RTTs.

The unit is the window, or the slot in it, never the ping. Distances of times are in ms; those of ratios are |ln|, so
that busy and quiet hours are compared alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bentpipe.validation.access_model.pings import LEAST_REPLIES, SLOT_S, Floats

#: Lags of the structure function E|r(t + lag) - r(t)| [s].
LAGS_S = (0.012, 0.1, 1.0, 7.0)
NAMES = (
    "W1 [ms]",
    "slot medians [ms]",
    "in-slot W1 [ms]",
    "slot steps [|ln|]",
    *(f"SF {lag * 1e3:g} ms [|ln|]" for lag in LAGS_S),
)

_LEVELS = (np.arange(100) + 0.5) / 100
#: Smallest mean step between slots that is distinguished [ms]: a quarter of a frame and the timer's resolution.
_LEAST_STEP_MS = 0.25
#: Smallest number of pairs at a lag.
_LEAST_PAIRS = 50


@dataclass(frozen=True)
class Summary:
    """Statistics of a window that the distances need.

    Attributes:
        rtt_ms: Quantiles of all RTTs.
        medians_ms: Quantiles of the slots' medians.
        in_slot_ms: Quantiles of RTTs minus their slot's median.
        log_step: ln of the mean |step| between the medians of successive slots [ms].
        log_sf: ln of the structure function at `LAGS_S` [ms]; NaN: too few pairs.
    """

    rtt_ms: Floats
    medians_ms: Floats
    in_slot_ms: Floats
    log_step: float
    log_sf: Floats


def summarise(t_s: Floats, rtt_ms: Floats, lags_s: Sequence[float] = LAGS_S) -> Summary:
    """Summarise a window: times from its first slot's edge [s], increasing, and RTTs [ms]."""
    slot = (t_s / SLOT_S).astype(int)
    medians = [
        float(np.median(rtt_ms[slot == k])) if (slot == k).sum() >= LEAST_REPLIES else np.nan
        for k in range(int(slot[-1]) + 1)
    ]
    steps = np.abs(np.diff(medians))
    known = np.array([m for m in medians if not np.isnan(m)])
    return Summary(
        np.quantile(rtt_ms, _LEVELS),
        np.quantile(known, _LEVELS),
        np.quantile(np.concatenate([rtt_ms[slot == k] - m for k, m in enumerate(medians) if not np.isnan(m)]), _LEVELS),
        float(np.log(max(float(np.nanmean(steps)), _LEAST_STEP_MS))),
        np.log([_structure(t_s, rtt_ms, lag) if lag in lags_s else np.nan for lag in LAGS_S]),
    )


def _structure(t_s: Floats, rtt_ms: Floats, lag_s: float) -> float:
    """Return mean |r(t + lag) - r(t)| over pairs whose distance is the lag within 5 % or 1.5 ms."""
    wanted = t_s + lag_s
    after = np.minimum(np.searchsorted(t_s, wanted), t_s.size - 1)
    before = np.maximum(after - 1, 0)
    nearest = np.where(np.abs(t_s[before] - wanted) < np.abs(t_s[after] - wanted), before, after)
    near = np.abs(t_s[nearest] - wanted) <= max(0.0015, 0.05 * lag_s)
    if near.sum() < _LEAST_PAIRS:
        return float("nan")
    return float(np.abs(rtt_ms[nearest] - rtt_ms)[near].mean())


def distances(a: Sequence[Summary], b: Sequence[Summary]) -> Floats:
    """Return every distance of every pair: shape (8, len(a), len(b)), in the order of `NAMES`; NaN: undefined."""

    def wasserstein(x: Floats, y: Floats) -> Floats:
        distances: Floats = np.abs(x[:, None] - y[None]).mean(-1)
        return distances

    def stack(which: str, of: Sequence[Summary]) -> Floats:
        return np.array([getattr(s, which) for s in of])

    rows = [wasserstein(stack(k, a), stack(k, b)) for k in ("rtt_ms", "medians_ms", "in_slot_ms")]
    rows.append(np.abs(stack("log_step", a)[:, None] - stack("log_step", b)[None]))
    rows.extend(np.moveaxis(np.abs(stack("log_sf", a)[:, None] - stack("log_sf", b)[None]), -1, 0))
    return np.array(rows)


def pairs(of: Sequence[Summary]) -> Floats:
    """Return the distances of every two different windows: shape (8, n (n - 1) / 2)."""
    upper = np.triu_indices(len(of), 1)
    return distances(of, of)[:, upper[0], upper[1]]
