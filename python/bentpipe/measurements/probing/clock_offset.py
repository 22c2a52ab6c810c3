"""Estimate the offset and drift between two clocks from one-way delays in both directions.

A stamped delay is the true delay plus or minus the clock offset. Packets with the least queueing give the best estimate
(the clock filter of RFC 5905, section 10): the packet with the shortest RTT of each window, and a straight line through
those of all windows, whose slope is the drift. The estimate assumes equal delays in both directions without queueing.
The error of that assumption is at most half the shortest RTT. Differences between delays of one direction are not
affected.

If two successive seconds differ by more than that, and by more than clocks can drift in between, one of the clocks was
set. Each stretch between such steps has its own line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

#: Window of the offset estimate. Chosen here: long enough to have packets without queueing, short against changes of
#: the drift.
WINDOW_S = 10.0
#: Window of the search for clock steps; a step within this time before another, or before the end, is not detected.
#: Chosen here: long enough to have probes without queueing.
STEP_WINDOW_S = 1.0
#: Largest drift of a clock that is not stepped [ppm]: the fastest slewing of Linux.
FASTEST_PPM = 500.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClockOffset:
    """The other host's clock minus this one's, for a stretch in which neither is stepped.

    Attributes:
        from_s: Start of the stretch, after the first probe.
        offset_ms: Offset at the time of the first probe.
        drift_ppm: How much faster the other clock runs; 0 where there are fewer than three windows.
        uncertain_ms: Half the shortest RTT, plus the largest deviation from the line that queueing does not explain.
    """

    from_s: float
    offset_ms: float
    drift_ppm: float
    uncertain_ms: float


def offsets_ms(stretches: Sequence[ClockOffset], t_s: Floats) -> Floats:
    """Return the offset [ms] at times since the first probe [s], by stretch; shape (n,)."""
    which = np.searchsorted([one.from_s for one in stretches[1:]], t_s, side="right")
    offset_ms, per_s = (np.array([getattr(one, name) for one in stretches]) for name in ("offset_ms", "drift_ppm"))
    offsets: Floats = offset_ms[which] + t_s * per_s[which] / 1e3
    return offsets


def estimate(t_s: Floats, up_ms: Floats, down_ms: Floats) -> list[ClockOffset]:
    """Estimate the offset from stamped delays, which include it; all shapes (n,), n ≥ 1, `t_s` not decreasing.

    Returns:
        Stretches separated by clock steps; usually one.
    """
    rtt_ms, theta_ms = up_ms + down_ms, (up_ms - down_ms) / 2
    best = _best(t_s, rtt_ms, STEP_WINDOW_S)
    allowed_ms = (rtt_ms[best][1:] + rtt_ms[best][:-1]) / 2 + np.diff(t_s[best]) * FASTEST_PPM / 1e3
    steps = np.flatnonzero(np.abs(np.diff(theta_ms[best])) > allowed_ms)
    begins = [0, *(_first_after(theta_ms, int(best[k]), int(best[k + 1])) for k in steps)]
    return [
        _line(*(values[begin:end] for values in (t_s, theta_ms, rtt_ms)))
        for begin, end in pairwise([*begins, t_s.size])
    ]


def _best(t_s: Floats, rtt_ms: Floats, window_s: float) -> NDArray[np.int64]:
    """Return the index of the probe with the shortest RTT in each window."""
    starts = np.flatnonzero(np.diff(np.floor((t_s - t_s[0]) / window_s), prepend=-1.0)).tolist()
    return np.array([begin + int(np.argmin(rtt_ms[begin:end])) for begin, end in pairwise([*starts, t_s.size])])


def _first_after(theta_ms: Floats, before: int, after: int) -> int:
    """Return the first probe after a step between two probes: the index that best separates low and high values."""
    there = theta_ms[before : after + 1]
    is_late = np.abs(there - there[-1]) < np.abs(there - there[0])
    # Misplaced probes for each index: those like the end before it, and those like the start from it on.
    wrong = np.cumsum(is_late)[:-1] + (~is_late).sum() - np.cumsum(~is_late)[:-1]
    return before + 1 + int(np.argmin(wrong))


def _line(t_s: Floats, theta_ms: Floats, rtt_ms: Floats) -> ClockOffset:
    best = _best(t_s, rtt_ms, WINDOW_S)
    slope = float(np.polyfit(t_s[best], theta_ms[best], 1)[0]) if best.size >= 3 else 0.0
    offset_ms = float(np.median(theta_ms[best] - slope * t_s[best]))
    queued_ms = (rtt_ms - rtt_ms.min()) / 2
    unexplained_ms = np.maximum(0.0, np.abs(theta_ms - offset_ms - slope * t_s) - queued_ms)
    return ClockOffset(float(t_s[0]), offset_ms, slope * 1e3, float(rtt_ms.min()) / 2 + float(unexplained_ms.max()))
