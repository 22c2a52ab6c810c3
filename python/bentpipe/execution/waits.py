"""Queueing delay of flows: the delay in the link elements, minus that of a lone packet at the same time.

A lone packet meets propagation, grants and cross traffic. The difference is the queueing that the flows cause. Over a
few packets it may be slightly below zero, since their exact send times are unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from bentpipe._native import Profile
    from bentpipe.execution.job import Outcome
    from bentpipe.experiments.experiment import Direction

#: Time between samples of a lone packet's delay [s]: below the 20 ms of the delay's random wander.
_LONE_STEP_S = 0.005


def delays(outcome: Outcome, flow: int) -> dict[str, Any]:
    """Return, per second, the count of a flow's data packets (-1: of all flows) and the sum of their delays [ms]."""
    direction = outcome.experiment.flows[max(flow, 0)].direction
    rows = (
        outcome.links()
        .filter((pl.col("flow") == flow) & (pl.col("direction") == direction) & (pl.col("delay_n") > 0))
        .group_by("t_s", maintain_order=True)
        .agg(pl.col("delay_n").max(), (pl.col("delay_n") * pl.col("delay_mean_ms")).sum().alias("sum_ms"))
    )
    return {name: rows[column].to_list() for name, column in (("t_s", "t_s"), ("n", "delay_n"), ("sum_ms", "sum_ms"))}


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
    seconds = list(_by_second(measured, lone, from_s, offset_s))
    packets = sum(n for n, _ in seconds)
    return sum(waited_ms for _, waited_ms in seconds) / packets if packets else None


def wait_p95_ms(measured: Mapping[str, Any], lone: NDArray[np.float64], from_s: float) -> float | None:
    """Return the 95th percentile over packets of the mean queueing delay in their second [ms]; None if none passed.

    A longer delay within a second does not show: the delay of a lone packet in the same moment is not known.
    """
    seconds = sorted((waited_ms / n, n) for n, waited_ms in _by_second(measured, lone, from_s, 0.0))
    if not seconds:
        return None
    passed = np.cumsum([n for _, n in seconds])
    return seconds[int(np.searchsorted(passed, 0.95 * passed[-1]))][0]


def _by_second(
    measured: Mapping[str, Any], lone: NDArray[np.float64], from_s: float, offset_s: float
) -> Iterator[tuple[int, float]]:
    """Yield count and sum of the queueing delays [ms] of each second's packets after `from_s`."""
    for t_s, n, sum_ms in zip(*(measured[name] for name in ("t_s", "n", "sum_ms")), strict=True):
        first, last = (max(0, round((end + offset_s) / _LONE_STEP_S)) for end in (t_s - 1, t_s))
        window = lone[first:last]
        window = window[np.isfinite(window)]
        if t_s > from_s and len(window):
            yield n, sum_ms - n * float(window.mean())
