"""How two clocks stand to each other, from one-way delays both ways.

What was stamped is delay plus or minus the offset of the clocks. The packets that met the least queue say it best (the
clock filter of RFC 5905, section 10): of each window that with the shortest round trip, and a straight line through
those of all windows, whose slope is the drift. It takes the way there and the way back to be equally long where there
is no queue: by that much, half the shortest round trip at most, the offset may be wrong. Differences between delays of
one direction do not suffer from it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Chosen here: long enough to have packets that did not wait, short against a drift that changes.
WINDOW_S = 10.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClockOffset:
    """The other end's clock less this one's.

    Attributes:
        offset_ms: When the first probe was sent.
        drift_ppm: How much faster the other clock runs; 0 where there are fewer than three windows.
        uncertain_ms: Half the shortest round trip.
    """

    offset_ms: float
    drift_ppm: float
    uncertain_ms: float

    def at(self, t_s: Floats) -> Floats:
        """The offset [ms] at times since the first probe [s]."""
        return self.offset_ms + t_s * self.drift_ppm / 1e3


def estimate(t_s: Floats, up_ms: Floats, down_ms: Floats) -> ClockOffset:
    """From delays as stamped, each less or more by the offset; all shapes (n,), n ≥ 1, `t_s` not decreasing."""
    rtt_ms = up_ms + down_ms
    window = np.floor((t_s - t_s[0]) / WINDOW_S)
    starts = np.flatnonzero(np.diff(window, prepend=-1.0))
    best = np.array(
        [begin + int(np.argmin(rtt_ms[begin:end])) for begin, end in zip(starts, [*starts[1:], len(t_s)], strict=True)]
    )
    theta_ms = (up_ms[best] - down_ms[best]) / 2
    slope = 0.0
    if len(best) >= 3:
        slope = float(np.polyfit(t_s[best], theta_ms, 1)[0])
    offset_ms = float(np.median(theta_ms - slope * t_s[best]))
    return ClockOffset(offset_ms, slope * 1e3, float(rtt_ms.min()) / 2)
