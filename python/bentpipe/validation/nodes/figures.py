"""Comparison of the datagrams of two worlds: recovered share, mean and 99th percentile of the one-way delay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.validation import Row
from bentpipe.validation.nodes.worlds import World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

TOLERANCE = 0.05
"""Largest relative difference from the simulator. Chosen here."""

RESAMPLES = 500
"""Bootstrap samples of the seconds. Losses come in episodes, so seconds are drawn and not datagrams."""

SEED = 1
"""Of the bootstrap."""

Pair = tuple[World, World]
"""The nodes' datagrams, and the simulator's."""
Seconds = list["NDArray[np.float64]"]
"""Delays [ms], NaN if lost, by the second in which the datagrams were sent."""


def compare(name: str, direction: str, pairs: Mapping[str, Pair]) -> list[Row]:
    """Compare a path's direction. `pairs`: by scheme, ``none`` and ``satguard``."""
    seconds = {
        (scheme, world): by_second(pair[world], direction) for scheme, pair in pairs.items() for world in range(2)
    }
    count = min(map(len, seconds.values()))
    draws = [
        np.arange(count),
        *np.random.default_rng(SEED).integers(count, size=(RESAMPLES, count)),
    ]
    rows = []

    def row(quantity: str, unit: str, statistic: Callable[[int, NDArray[np.int64]], float]) -> None:
        ours, reference = np.array([[statistic(world, draw) for world in range(2)] for draw in draws]).T
        off = ours / reference - 1
        low, high = np.nanquantile(off[1:], [0.025, 0.975])
        rows.append(
            Row(
                f"{name}, {direction}: {quantity}{unit}",
                f"{ours[0]:.4g} ({off[0]:+.2%}, {low:+.2%} to {high:+.2%})",
                f"{reference[0]:.4g}",
                f"{TOLERANCE:.0%}",
                bool(abs(off[0]) <= TOLERANCE),
            )
        )

    def of(scheme: str, world: int, draw: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.concatenate([seconds[scheme, world][second] for second in draw])

    def share(world: int, draw: NDArray[np.int64]) -> float:
        return recovered(of("none", world, draw), of("satguard", world, draw))

    row("recovered share of the losses", "", share)
    for scheme in pairs:

        def mean(world: int, draw: NDArray[np.int64], scheme: str = scheme) -> float:
            return float(np.nanmean(of(scheme, world, draw)))

        def tail(world: int, draw: NDArray[np.int64], scheme: str = scheme) -> float:
            return float(np.nanquantile(of(scheme, world, draw), 0.99))

        row(f"{scheme}: mean delay", " [ms]", mean)
        row(f"{scheme}: 99th percentile", " [ms]", tail)
    return rows


def recovered(without: NDArray[np.float64], with_recovery: NDArray[np.float64]) -> float:
    """Return the share of the datagrams lost without recovery that arrive with it; NaN: none is lost without it."""
    lost = np.isnan(without).mean()
    return float(1 - np.isnan(with_recovery).mean() / lost) if lost else np.nan


def by_second(world: World, direction: str) -> Seconds:
    """Return the delays by the second of the Profile; the first and the last, which are not whole, are left out."""
    second = np.floor(world.sent_s[direction]).astype(np.int64)
    return [world.delays_ms[direction][:, second == number].ravel() for number in range(second[0] + 1, second[-1])]
