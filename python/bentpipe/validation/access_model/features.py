"""Features of a slot of RTTs, by which a classifier may distinguish real and generated slots.

Two sets: *fine*, of probes every 12 ms, and *coarse*, of any campaign thinned to one probe each 150 ms. Times are ms.
Ratios of structure functions E|r(t + lag) - r(t)| describe the memory of the delay, whatever the load.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bentpipe.validation.access_model.pings import LEAST_REPLIES, SLOT_S, WINDOW_S, Floats

#: Interval of probes to which every campaign can be thinned [s].
COARSE_S = 0.15
#: Time after the edge when the interruption and its queue are over [s]; features of the body start here.
BODY_S = 1.0

COARSE = (
    "p5",
    "median",
    "p25 - p5",
    "p75 - p25",
    "p95 - median",
    "p99 - p95",
    "share above median + 15",
    "share above median + 30",
    "edge max - median",
    "after edge - median",
    "last second - median",
    "step of medians",
    "step of p5",
    "slope",
    "spread of 3 s medians",
    "spread of 1 s minima",
    "spread of 1 s maxima",
    "SF next / 4 s",
    "SF 1 s / 4 s",
)
FINE = (*COARSE, "SF 12 ms / 4 s", "SF 30 ms / 4 s", "SF 100 ms / 4 s", "SF 300 ms / 4 s", "correlation at 30 ms")

_LAGS_S = {"12 ms": 0.012, "30 ms": 0.03, "100 ms": 0.1, "300 ms": 0.3, "1 s": 1.0, "4 s": 4.0}
#: Smallest number of pairs at a lag.
_LEAST_PAIRS = 15


def thinned(t_s: Floats, rtt_ms: Floats) -> tuple[Floats, Floats]:
    """Return the first reply of each `COARSE_S`."""
    first = np.flatnonzero(np.diff((t_s // COARSE_S).astype(np.int64), prepend=-1))
    return t_s[first], rtt_ms[first]


def slot_features(t_s: Floats, rtt_ms: Floats, *, fine: bool) -> Floats:
    """Return the features of every slot with enough replies, shape (slots, features), and the slots' indices.

    Args:
        t_s: Send times, from the window's first edge [s], increasing.
        rtt_ms: Their RTTs [ms].
        fine: Whether to use `FINE` of all probes instead of `COARSE` of the thinned ones.
    """
    if not fine:
        t_s, rtt_ms = thinned(t_s, rtt_ms)
    slot = (t_s / SLOT_S).astype(int)
    rows = []
    before: Floats | None = None
    for k in range(round(WINDOW_S / SLOT_S)):
        inside = slot == k
        since_s, rtt = t_s[inside] - k * SLOT_S, rtt_ms[inside]
        body = since_s >= BODY_S
        if body.sum() < LEAST_REPLIES:
            before = None
            continue
        levels = np.percentile(rtt, [5, 50])
        steps = np.abs(levels - before) if before is not None else np.full(2, np.nan)
        before = levels
        named = _of_slot(since_s, rtt, body) | {"step of p5": steps[0], "step of medians": steps[1]}
        if fine:
            named |= _short(since_s[body], rtt[body])
        rows.append([named[name] for name in (FINE if fine else COARSE)])
    return np.array(rows, float).reshape(-1, len(FINE if fine else COARSE))


def _of_slot(since_s: Floats, rtt: Floats, body: np.ndarray) -> dict[str, float]:
    p5, p25, median, p75, p95, p99 = np.percentile(rtt[body], [5, 25, 50, 75, 95, 99])
    t_s, r = since_s[body], rtt[body]

    def median_of(part: np.ndarray) -> float:
        return float(np.median(rtt[part]) - median) if part.any() else np.nan

    edge = since_s < 0.4
    per_1s = [r[(t_s >= k) & (t_s < k + 1)] for k in range(1, 15)]
    per_3s = [np.median(part) for k in range(0, 15, 3) if (part := r[(t_s >= k) & (t_s < k + 3)]).size > 5]
    wide = _structure(t_s, r, "4 s")
    return {
        "p5": p5,
        "median": median,
        "p25 - p5": p25 - p5,
        "p75 - p25": p75 - p25,
        "p95 - median": p95 - median,
        "p99 - p95": p99 - p95,
        "share above median + 15": float((r > median + 15).mean()),
        "share above median + 30": float((r > median + 30).mean()),
        "edge max - median": float(rtt[edge].max() - median) if edge.any() else np.nan,
        "after edge - median": median_of((since_s >= 0.4) & (since_s < 1.5)),
        "last second - median": median_of(since_s >= SLOT_S - 1),
        "slope": float(np.polyfit(t_s, r, 1)[0]),
        "spread of 3 s medians": float(np.std(per_3s)),
        "spread of 1 s minima": float(np.std([part.min() for part in per_1s if part.size > 3])),
        "spread of 1 s maxima": float(np.std([part.max() for part in per_1s if part.size > 3])),
        "SF next / 4 s": float(np.abs(np.diff(r)).mean()) / wide,
        "SF 1 s / 4 s": _structure(t_s, r, "1 s") / wide,
    }


def _short(t_s: Floats, r: Floats) -> dict[str, float]:
    wide = _structure(t_s, r, "4 s")
    later, earlier = _pairs(t_s, _LAGS_S["30 ms"])
    centred = r - r.mean()
    varies = later.size >= _LEAST_PAIRS and centred.var() > 1e-9
    correlation = float((centred[later] * centred[earlier]).mean() / centred.var()) if varies else np.nan
    short: Sequence[str] = ("12 ms", "30 ms", "100 ms", "300 ms")
    return {f"SF {lag} / 4 s": _structure(t_s, r, lag) / wide for lag in short} | {"correlation at 30 ms": correlation}


def _structure(t_s: Floats, r: Floats, lag: str) -> float:
    """Return mean |r(t + lag) - r(t)|; NaN: too few pairs, or constant RTTs."""
    later, earlier = _pairs(t_s, _LAGS_S[lag])
    step_ms = float(np.abs(r[later] - r[earlier]).mean()) if later.size >= _LEAST_PAIRS else 0.0
    return step_ms if step_ms > 0 else np.nan


def _pairs(t_s: Floats, lag_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Return indices of probes that are the lag apart within 8 %, or half a coarse step for long lags, or 1.5 ms."""
    wanted = t_s + lag_s
    after = np.minimum(np.searchsorted(t_s, wanted), t_s.size - 1)
    at = np.maximum(after - 1, 0)
    nearest = np.where(np.abs(t_s[at] - wanted) < np.abs(t_s[after] - wanted), at, after)
    near = np.abs(t_s[nearest] - wanted) <= max(0.0015, 0.08 * lag_s)
    return nearest[near], np.flatnonzero(near)
