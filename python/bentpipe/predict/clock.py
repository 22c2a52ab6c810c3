"""The slot clock of a signal: which second of Starlink's 15 s holds the edge, if the data show it.

A wrong clock is worse than none (1 s off: errors of pings 5 s ahead grow by 10 %), so a clock is used only where it is
found. `analyze handovers` searches any period in dense pings; samples of a second, and the running mean of a terminal,
show only that changes are greater, or slopes change, in one second of fifteen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.predict.features import SlotClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bentpipe.predict.signals import Signal

    Floats = NDArray[np.float64]

PERIOD_S = 15.0
"""Starlink's slots [s] (Tanveer et al., arXiv:2307.00402)."""

BLOCK_S = 120.0
"""Length of the blocks whose agreement is tested [s]; chosen here: eight slots."""

LEAST_T = 5.0
"""Least t of the best second's excess over the blocks; chosen here: 15 seconds and two statistics are tried, and blocks
of pings without slots (shuffled ones of Seattle) stay below 3.5."""


def find_clock(signals: Sequence[Signal]) -> SlotClock | None:
    """Return the clock that the signals' edges have in common; None: they show none.

    Of first differences of logarithms (levels that jump) and of second differences (slopes that change) the clearer
    decides. Blocks of 120 s are the independent observations.
    """
    if not signals or not all(signal.clock_known for signal in signals):
        return None
    best: tuple[float, float] | None = None
    for order in (1, 2):
        excess = np.vstack([_excess(signal, order) for signal in signals])
        if len(excess) < 5:
            continue
        mean, error = excess.mean(axis=0), excess.std(axis=0, ddof=1) / np.sqrt(len(excess))
        second = int(np.argmax(mean))
        t = float(mean[second] / error[second]) if error[second] > 0 else 0.0
        # A change of slope shows at the sample before it.
        phase_s = float((second - (order - 1)) % PERIOD_S)
        if best is None or t > best[0]:
            best = t, phase_s
    if best is None or best[0] < LEAST_T:
        return None
    offsets = [session.t_s[0] % 1.0 for signal in signals for session in signal.sessions]
    middle = float(np.angle(np.exp(2j * np.pi * np.array(offsets)).mean()) / (2 * np.pi))
    return SlotClock(period_s=PERIOD_S, phase_s=(best[1] + middle) % PERIOD_S)


def _excess(signal: Signal, order: int) -> Floats:
    """Return for each block the mean rank of changes in each second of the slot, less its own; (blocks, 15)."""
    slots = int(PERIOD_S)
    rows = []
    for session in signal.sessions:
        size = int(BLOCK_S)
        level = np.log(np.maximum(session.values, 1e-3))
        change = np.abs(np.diff(level, n=order, prepend=[np.nan] * order))
        second = np.floor(session.t_s + 0.5).astype(np.int64) % slots
        for start in range(0, len(change) - size + 1, size):
            part, place = change[start : start + size], second[start : start + size]
            valid = np.isfinite(part)
            if valid.sum() < size / 2:
                continue
            rank = np.full(size, np.nan)
            rank[valid] = np.argsort(np.argsort(part[valid])) / valid.sum()
            count = np.bincount(place[valid], minlength=slots)
            if (count == 0).any():
                continue
            sums = np.bincount(place[valid], weights=rank[valid], minlength=slots)
            rows.append(sums / count - rank[valid].mean())
    return np.array(rows).reshape(-1, slots)
