"""The household's traffic from a router's byte counters, some or ten times a second.

Bytes are added up over windows of up to two seconds, so that much traffic is seen at once and little within the time of
the terminal's counters. The run's own bytes of a window are those between the readings of its counters around it: never
too few, however its traffic comes in bursts. A reading is judged once the run's counters are known for its time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from bentpipe.testbed.agent.scavenger.user_traffic import FIRST_GAIN, Residual

if TYPE_CHECKING:
    from bentpipe.testbed.agent.counters import Rates
    from bentpipe.testbed.agent.scavenger.own_traffic import OwnTraffic
    from bentpipe.testbed.schemas.policy import ScavengerLevels

WINDOW_S = 2.2
"""Longest window [s]: two readings of a second and their jitter."""

LEVEL_S = 1.5
"""The household uses its link if a window has more bytes than the level gives in this time [s]. In 27 idle hours of
telemetry that was exceeded once falsely, with 2 s never, with 1 s ten times (`bentpipe validate scavenger`)."""

TRANSIT_S = 0.01
"""Time that packets take between router and run, at most [s]."""

LATE_S = 0.12
"""How much older than its time a reading of the run's counters may be [s]: the agent looks ten times a second."""

STALE_S = 1.0
"""Age of the run's newest counters from which a reading is judged without newer ones [s]."""


class RouterTraffic:
    """Detects the household's traffic in a router's rates.

    Example:
        >>> from bentpipe.testbed.agent.counters import Rates
        >>> from bentpipe.testbed.agent.scavenger.own_traffic import OwnTraffic
        >>> from bentpipe.testbed.schemas.policy import ScavengerLevels
        >>> router = RouterTraffic(ScavengerLevels(), OwnTraffic())
        >>> [each.is_user for tenth in range(1, 4) for each in router.observe(Rates(tenth / 10, 0.1, 6e6, 0.0))]
        [False, True, True]
    """

    def __init__(self, levels: ScavengerLevels, own: OwnTraffic) -> None:
        """Begin without readings."""
        self._levels, self._own = levels, own
        self._readings: deque[tuple[float, float, float]] = deque()
        self._waiting: deque[tuple[float, float, float]] = deque()

    def set_levels(self, levels: ScavengerLevels) -> None:
        """Go on with other levels."""
        self._levels = levels

    def observe(self, rates: Rates) -> list[Residual]:
        """Take rates; return the residuals of the readings that can be judged now, the oldest first."""
        down, up = rates.down_bps * rates.duration_s / 8, rates.up_bps * rates.duration_s / 8
        newest = (self._waiting or self._readings or [(0.0, 0.0, 0.0)])[-1]
        begin_s = rates.t_s - rates.duration_s
        if not self._readings or abs(begin_s - newest[0]) > 0.01:  # what lies between is not known
            self._readings.clear()
            self._waiting.clear()
            self._readings.append((begin_s, newest[1], newest[2]))
        self._waiting.append((rates.t_s, newest[1] + down, newest[2] + up))
        known_s = self._own.newest_s
        is_stale = known_s is None or rates.t_s - known_s >= STALE_S
        judged = []
        while self._waiting and (is_stale or (known_s or 0.0) >= self._waiting[0][0] + LATE_S):
            self._readings.append(self._waiting.popleft())
            judged.append(self._judge())
        return judged

    def _judge(self) -> Residual:
        """Judge the newest reading by all windows that end with it."""
        end_s, end_down, end_up = self._readings[-1]
        while self._readings[0][0] < end_s - WINDOW_S:
            self._readings.popleft()
        share, is_user = self._levels.own_share, False
        best = (0.0, 0.0)
        for begin_s, begin_down, begin_up in list(self._readings)[:-1]:
            own_down, own_up = self._own.most_bytes(begin_s - TRANSIT_S, end_s + LATE_S)
            rest = end_down - begin_down - FIRST_GAIN * own_down, end_up - begin_up - FIRST_GAIN * own_up
            span_s = end_s - begin_s
            best = max(best[0], 8 * rest[0] / span_s), max(best[1], 8 * rest[1] / span_s)
            is_user |= rest[0] > max(self._levels.down * LEVEL_S / 8, share * own_down)
            is_user |= rest[1] > max(self._levels.up * LEVEL_S / 8, share * own_up)
        return Residual(end_s, best[0], best[1], is_user, is_user)
