"""Change of a series of RTTs over time: the input of the search for slots.

The change at a moment is the difference of mean ln(RTT) in the windows before and after it. A step between two levels
gives a peak, and so does the burst of delay at a handover (Huston, "A Transport Protocol's View of Starlink", 2024,
figures 3 and 4). Ranks of the differences are used, so that a large step weighs no more than a few small ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Step of the grid [s]; chosen here: half the shorter window.
STEP_S = 0.25
#: The windows [s]; chosen here on Victoria (10 ms), Seattle (250 ms) and FjordLink (1 s): the short one detects the
#: burst and locates the edge, the long one detects the step in the noise of sparse pings.
WINDOWS_S = (0.5, 2.0)
#: Fewest replies in a window at the series' spacing; chosen here: fewer have no meaningful mean.
LEAST_REPLIES = 2
#: Least share of a window's usual replies; chosen here: probers that wait for a lost reply leave gaps of seconds, often
#: at edges.
FILLED = 0.25
#: The finest RTT that a tool prints [ms].
FINEST_MS = 1e-3
#: ln(RTT) is clipped at these quantiles, so that a single late reply is not a step.
CUT = (0.01, 0.95)


@dataclass(frozen=True)
class Evidence:
    """Change on a regular grid.

    Attributes:
        start_s: Time of the first grid point, on the clock of the series [s].
        step_s: Distance of grid points [s].
        value: Change, distributed as Exp(1) over the series; NaN where a window has too few replies.
        width_s: The shorter window: peaks are not narrower, and phases closer than this are not distinguished.
    """

    start_s: float
    step_s: float
    value: Floats
    width_s: float

    @property
    def known(self) -> float:
        """Share of grid points with a value."""
        return float(np.isfinite(self.value).mean()) if self.value.size else 0.0


def spacing_s(t_s: Floats) -> float:
    """Return the median spacing of successive probes that are not simultaneous [s]."""
    return usual(np.diff(t_s))


def usual(steps: Floats) -> float:
    """Return the median of the positive steps; infinite if there is none."""
    apart = steps > 0
    known = steps if apart.all() else steps[apart]
    if not known.size:
        return float("inf")
    # Like np.median, which would import masked arrays first.
    middle = known.size // 2
    if known.size % 2:
        return float(np.partition(known, middle)[middle])
    ordered = np.partition(known, (middle - 1, middle))
    return float((ordered[middle - 1] + ordered[middle]) / 2)


def log_of(rtt_ms: Floats) -> Floats:
    """Return ln of RTTs [ms]; an RTT of 0, below its tool's resolution, counts as `FINEST_MS`."""
    logs: Floats = np.log(np.maximum(rtt_ms, FINEST_MS))
    return logs


def evidence(t_s: Floats, rtt_ms: Floats, spacing: float) -> Evidence:
    """Compute at each point of a grid how much the mean of ln(RTT) changes there, as ranks (see the module).

    Args:
        t_s: Send times of the answered probes [s], increasing; shape (n,).
        rtt_ms: Their RTTs [ms], 0 or more; shape (n,).
        spacing: Median spacing of successive probes [s]; it sets the shortest window.
    """
    level = log_of(rtt_ms)
    low, high = np.quantile(level, CUT)
    level = np.clip(level, low, high) - low
    start = float(np.floor(t_s[0] / STEP_S) * STEP_S)
    grid = start + STEP_S * np.arange(int((t_s[-1] - start) / STEP_S) + 1)
    until = np.concatenate([[0.0], np.cumsum(level)])
    at = np.searchsorted(t_s, grid)
    total = np.zeros(grid.size)
    widths = [max(window, LEAST_REPLIES * spacing * 0.999) for window in WINDOWS_S]
    for width in widths:
        before, after = np.searchsorted(t_s, grid - width), np.searchsorted(t_s, grid + width)
        least = max(1.0, FILLED * width / spacing)
        left, right = at - before, after - at
        with np.errstate(divide="ignore", invalid="ignore"):
            change = np.abs((until[after] - until[at]) / right - (until[at] - until[before]) / left)
        change[(left < least) | (right < least)] = np.nan
        usual = np.nanmean(change) if np.isfinite(change).any() else np.nan
        total += change / usual if usual > 0 else change
    return Evidence(start, STEP_S, _exponential_ranks(total), widths[0])


def _exponential_ranks(value: Floats) -> Floats:
    """Map the rank of each finite value to a quantile of Exp(1); equal values share their mean rank."""
    out = np.full(value.size, np.nan)
    finite = np.isfinite(value)
    _, which, count = np.unique(value[finite], return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - count / 2
    out[finite] = -np.log1p(-middle[which] / max(which.size, 1))
    return out
