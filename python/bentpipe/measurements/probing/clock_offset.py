"""How two clocks stand to each other, from one-way delays both ways.

What was stamped is delay plus or minus the offset of the clocks. The packets that met the least queue say it best (the
clock filter of RFC 5905, section 10): of each window that with the shortest RTT, and a straight line through
those of all windows, whose slope is the drift. It takes the way there and the way back to be equally long where there
is no queue: by that much, half the shortest RTT at most, the offset may be wrong. Differences between delays of
one direction do not suffer from it.

Where two seconds that follow each other differ by more than that, and by more than a clock can drift in between, one of
the clocks was set: each stretch between such steps has a line of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

#: Chosen here: long enough to have packets that did not wait, short against a drift that changes.
WINDOW_S = 10.0
#: Where a clock was set is looked for in windows of this length: one set so shortly before another time, or the end, is
#: not told. Chosen here: some probes that did not wait.
STEP_WINDOW_S = 1.0
#: No clock that is not set gains or loses more [ppm]: the fastest that Linux slews one.
FASTEST_PPM = 500.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClockOffset:
    """The other end's clock less this one's, as long as neither is set.

    Attributes:
        from_s: Since when, after the first probe.
        offset_ms: When the first probe was sent.
        drift_ppm: How much faster the other clock runs; 0 where there are fewer than three windows.
        uncertain_ms: Half the shortest RTT, and the most by which a probe is off the line that its own queue
            does not account for.
    """

    from_s: float
    offset_ms: float
    drift_ppm: float
    uncertain_ms: float


def offsets_ms(stretches: Sequence[ClockOffset], t_s: Floats) -> Floats:
    """The offset [ms] at times since the first probe [s], each by its stretch; shape (n,)."""
    which = np.searchsorted([one.from_s for one in stretches[1:]], t_s, side="right")
    offset_ms, per_s = (np.array([getattr(one, name) for one in stretches]) for name in ("offset_ms", "drift_ppm"))
    found: Floats = offset_ms[which] + t_s * per_s[which] / 1e3
    return found


def estimate(t_s: Floats, up_ms: Floats, down_ms: Floats) -> list[ClockOffset]:
    """From delays as stamped, each less or more by the offset; all shapes (n,), n ≥ 1, `t_s` not decreasing.

    Returns:
        Stretches between which a clock was set; mostly one.
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
    """Of each window the place of the probe with the shortest RTT."""
    starts = np.flatnonzero(np.diff(np.floor((t_s - t_s[0]) / window_s), prepend=-1.0)).tolist()
    return np.array([begin + int(np.argmin(rtt_ms[begin:end])) for begin, end in pairwise([*starts, t_s.size])])


def _first_after(theta_ms: Floats, before: int, after: int) -> int:
    """The first probe behind a step, which is between two: of all places the one that parts lower and higher best."""
    there = theta_ms[before : after + 1]
    is_late = np.abs(there - there[-1]) < np.abs(there - there[0])
    # Late ones before each place but the first, and early ones from it on.
    wrong = np.cumsum(is_late)[:-1] + (~is_late).sum() - np.cumsum(~is_late)[:-1]
    return before + 1 + int(np.argmin(wrong))


def _line(t_s: Floats, theta_ms: Floats, rtt_ms: Floats) -> ClockOffset:
    best = _best(t_s, rtt_ms, WINDOW_S)
    slope = float(np.polyfit(t_s[best], theta_ms[best], 1)[0]) if best.size >= 3 else 0.0
    offset_ms = float(np.median(theta_ms[best] - slope * t_s[best]))
    queued_ms = (rtt_ms - rtt_ms.min()) / 2
    unexplained_ms = np.maximum(0.0, np.abs(theta_ms - offset_ms - slope * t_s) - queued_ms)
    return ClockOffset(float(t_s[0]), offset_ms, slope * 1e3, float(rtt_ms.min()) / 2 + float(unexplained_ms.max()))
