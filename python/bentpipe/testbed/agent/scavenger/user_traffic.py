"""The household's traffic: what the terminal counts, less gain × the run's own.

A terminal's reading of a second is rough: under a steady load some seconds read 0 and about as many the double, and a
reading is up to two seconds older than the run's counters. So the run's own traffic counts with the largest rate of the
last seconds, and two fresh samples have to agree. `bentpipe validate scavenger` measures what that costs. (To credit
seconds that read too little to those after them saved no false yield in the data, and hid traffic.)
"""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bentpipe.testbed.agent.scavenger.own_traffic import OwnTraffic
    from bentpipe.testbed.schemas.policy import ScavengerLevels

FRESH_SAMPLES = 2
"""Samples in sequence that have to be above the level."""

FIRST_SHARE = 0.5
"""Share of the level from which the first of them counts: traffic that begins within a second fills a part of it.
Idle telemetry stays below 174 kbit/s down and 57 up (data), less than half of the usual levels."""

FIRST_GAIN, GAINS = 1.05, (0.95, 1.2)
"""Gain before any is learned; and its bounds, so that steady traffic of the household is not learned as gain."""

LEARN_BPS, LEARN_SAMPLES = 2e6, 60
"""Own rate from which the gain is learned [bit/s]; samples whose median it is."""


SPAN_S = 1.0
"""Time that a reading covers [s]."""

LAGS_S = (0.0, 0.5, 1.0, 1.5, 2.0)
"""How much older than its arrival a reading may be [s]."""


@dataclass(frozen=True, slots=True)
class Residual:
    """A sample less the run's own traffic.

    Attributes:
        t_s: Steady time of the sample [s].
        down_bps: Rest towards the household [bit/s]; may be negative.
        up_bps: Rest from it [bit/s].
        is_above: Whether one of them is above its level now: not quiet.
        is_user: Whether the household uses its link: enough samples in sequence are.
    """

    t_s: float
    down_bps: float
    up_bps: float
    is_above: bool
    is_user: bool


class UserTraffic:
    """Detects the household's traffic in fresh samples of a terminal.

    Args:
        levels: The owner's levels.
        own: Traffic of the runs; none: there is no run.

    Attributes:
        gain_down, gain_up: The terminal's reading per byte of the run's own counters.

    Example:
        >>> from bentpipe.testbed.agent.scavenger.own_traffic import OwnTraffic
        >>> from bentpipe.testbed.schemas.policy import ScavengerLevels
        >>> user = UserTraffic(ScavengerLevels(), OwnTraffic())
        >>> [user.observe(second, down_bps, 1e4).is_user for second, down_bps in enumerate([3e4, 9e5, 9e5])]
        [False, False, True]
    """

    def __init__(self, levels: ScavengerLevels, own: OwnTraffic) -> None:
        """Begin without samples."""
        self._own = own
        self._ways = (_Way(levels.down, levels.own_share), _Way(levels.up, levels.own_share))

    def set_levels(self, levels: ScavengerLevels) -> None:
        """Go on with other levels."""
        for way, level_bps in zip(self._ways, (levels.down, levels.up), strict=True):
            way.level_bps, way.own_share = level_bps, levels.own_share

    @property
    def gain_down(self) -> float:
        """Gain towards the household."""
        return self._ways[0].gain

    @property
    def gain_up(self) -> float:
        """Gain from the household."""
        return self._ways[1].gain

    def observe(self, t_s: float, down_bps: float, up_bps: float) -> Residual:
        """Take a fresh sample: a reading that is given twice is not one. Values have to be finite and not negative."""
        rates = [self._own.rates_bps(t_s - lag_s, SPAN_S) for lag_s in LAGS_S]
        down, up = self._ways
        rest_down = down.observe(t_s, down_bps, [rate[0] for rate in rates])
        rest_up = up.observe(t_s, up_bps, [rate[1] for rate in rates])
        return Residual(t_s, rest_down, rest_up, down.is_above or up.is_above, down.is_user or up.is_user)


class _Way:
    """One direction."""

    def __init__(self, level_bps: float, own_share: float) -> None:
        self.gain = FIRST_GAIN
        self.is_above = self.is_user = False
        self.level_bps, self.own_share = level_bps, own_share
        self._above: deque[float] = deque()
        self._ratios: deque[float] = deque(maxlen=LEARN_SAMPLES)

    def observe(self, t_s: float, reading_bps: float, own_bps: list[float]) -> float:
        """Take a reading and the own rates at the lags; return the residual [bit/s]."""
        most_bps, least_bps = max(own_bps), min(own_bps)
        residual_bps = reading_bps - self.gain * most_bps
        share_bps = self.own_share * most_bps
        level_bps = max(self.level_bps, share_bps)
        first_bps = max(FIRST_SHARE * self.level_bps, share_bps)
        while self._above and not t_s - 2.5 * SPAN_S < self._above[0] <= t_s:
            self._above.popleft()
        if residual_bps > first_bps:
            self._above.append(t_s)
        else:
            self._above.clear()
        self.is_above = residual_bps > level_bps
        self.is_user = self.is_above and len(self._above) >= FRESH_SAMPLES
        if not self.is_user:
            self._learn(reading_bps, most_bps, least_bps)
        return residual_bps

    def _learn(self, reading_bps: float, most_bps: float, least_bps: float) -> None:
        is_steady = least_bps >= max(LEARN_BPS, 0.8 * most_bps)
        if is_steady and 0.8 <= reading_bps / most_bps <= 1.25:
            self._ratios.append(reading_bps / most_bps)
            if len(self._ratios) >= LEARN_SAMPLES // 6:
                self.gain = min(max(statistics.median(self._ratios), GAINS[0]), GAINS[1])
