"""Queueing delay of flows: the delay in the link elements, minus that of a lone packet at the same time.

A lone packet meets propagation, grants and cross traffic. The difference is the queueing that the flows cause. Over a
few packets it may be slightly below zero, since their exact send times are unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from bentpipe._native import Profile
    from bentpipe.execution.job import Outcome
    from bentpipe.experiments.experiment import Direction

#: Time between samples of a lone packet's delay [s]: below the 20 ms of the delay's random wander.
_LONE_STEP_S = 0.005
#: Values between a second's median and its 95th percentile: a tenth of the difference is of no interest.
_BETWEEN = 9


def delays(outcome: Outcome, flow: int) -> dict[str, Any]:
    """Return, per second, the count of a flow's data packets (-1: of all flows) and their delays [ms].

    `sum_ms` is the sum over the packets; `p50_ms` and `p95_ms` are the hops' percentiles, added up: exact where one hop
    varies.
    """
    direction = outcome.experiment.flows[max(flow, 0)].direction
    rows = (
        outcome.links()
        .filter((pl.col("flow") == flow) & (pl.col("direction") == direction) & (pl.col("delay_n") > 0))
        .group_by("t_s", maintain_order=True)
        .agg(
            pl.col("delay_n").max().alias("n"),
            (pl.col("delay_n") * pl.col("delay_mean_ms")).sum().alias("sum_ms"),
            pl.col("delay_p50_ms").sum().alias("p50_ms"),
            pl.col("delay_p95_ms").sum().alias("p95_ms"),
        )
    )
    return {name: rows[name].to_list() for name in ("t_s", "n", "sum_ms", "p50_ms", "p95_ms")}


def lone_ms(path: Profile, direction: Direction) -> NDArray[np.float64]:
    """Return a lone packet's one-way delay every `_LONE_STEP_S` from the Profile's start [ms]."""
    sent_s = np.arange(0.0, path.duration_s, _LONE_STEP_S)
    return path.delay_ms(direction, sent_s)


def wait_ms(
    measured: Mapping[str, Any], lone: NDArray[np.float64], from_s: float, offset_s: float = 0.0
) -> float | None:
    """Return the mean queueing delay of the packets in `delays` after `from_s` [ms]; None if none passed.

    `offset_s` is the Run's start within the Profile that `lone` describes.
    """
    waited_ms, packets = 0.0, 0
    for t_s, n, sum_ms in zip(*(measured[name] for name in ("t_s", "n", "sum_ms")), strict=True):
        window = _second(lone, t_s + offset_s)
        if t_s > from_s and len(window):
            waited_ms += sum_ms - n * float(window.mean())
            packets += n
    return waited_ms / packets if packets else None


def wait_p95_ms(measured: Mapping[str, Any], lone: NDArray[np.float64], from_s: float) -> float | None:
    """Return the 95th percentile of these packets' queueing delay after `from_s` [ms]; None if none passed.

    It is estimated: of a second are known the median and the 95th percentile of the delay, and those of a lone packet's
    delay. Half of its packets count with the difference of the medians, a twentieth with that of the 95th percentiles,
    and the others with values between both.
    """
    waits_ms, packets = [], []
    for t_s, n, *known_ms in zip(*(measured[name] for name in ("t_s", "n", "p50_ms", "p95_ms")), strict=True):
        window = _second(lone, t_s)
        if t_s > from_s and len(window):
            half_ms, most_ms = np.asarray(known_ms) - np.quantile(window, [0.5, 0.95])
            between_ms = half_ms + (most_ms - half_ms) * (np.arange(_BETWEEN) + 0.5) / _BETWEEN
            waits_ms += [half_ms, *between_ms, most_ms]
            packets += [0.5 * n, *[0.45 * n / _BETWEEN] * _BETWEEN, 0.05 * n]
    if not packets:
        return None
    order = np.argsort(waits_ms)
    passed = np.cumsum(np.asarray(packets)[order])
    return float(np.asarray(waits_ms)[order][np.searchsorted(passed, (0.95 - 1e-9) * passed[-1])])


def _second(lone: NDArray[np.float64], end_s: float) -> NDArray[np.float64]:
    """Return the known delays of a lone packet in the second up to `end_s` [ms]."""
    first, last = (max(0, round(at_s / _LONE_STEP_S)) for at_s in (end_s - 1, end_s))
    window = lone[first:last]
    return window[np.isfinite(window)]
