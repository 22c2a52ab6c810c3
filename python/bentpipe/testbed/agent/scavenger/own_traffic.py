"""Traffic of the run itself, from byte counters of its interface."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bentpipe.testbed.agent.counters import ByteCounts

KEPT_S = 10.0
"""Age of readings that are forgotten [s]."""


class OwnTraffic:
    """Rates of a run's own traffic at past times.

    Counters of several runs are added by their reader. Where counters begin anew (another run), so do the rates.

    Example:
        >>> from bentpipe.testbed.agent.counters import ByteCounts
        >>> own = OwnTraffic()
        >>> for second in range(4):
        ...     own.add(ByteCounts(float(second), 125_000 * second, 0))
        >>> own.rates_bps(3.0, 1.0)
        (1000000.0, 0.0)
    """

    def __init__(self) -> None:
        """Begin without traffic."""
        self._times: deque[float] = deque()
        self._down: deque[float] = deque()
        self._up: deque[float] = deque()
        self._last: ByteCounts | None = None

    def add(self, counts: ByteCounts) -> None:
        """Add a reading."""
        last, self._last = self._last, counts
        if self._times and counts.t_s <= self._times[-1]:
            return
        down, up = 0.0, 0.0
        if last is not None and counts.down_bytes >= last.down_bytes and counts.up_bytes >= last.up_bytes:
            down, up = float(counts.down_bytes - last.down_bytes), float(counts.up_bytes - last.up_bytes)
        before = (self._down[-1], self._up[-1]) if self._times else (0.0, 0.0)
        self._times.append(counts.t_s)
        self._down.append(before[0] + down)
        self._up.append(before[1] + up)
        while self._times[0] < counts.t_s - KEPT_S:
            for series in (self._times, self._down, self._up):
                series.popleft()

    def rates_bps(self, t_s: float, span_s: float) -> tuple[float, float]:
        """Return the mean rates of the `span_s` before `t_s`, down and up [bit/s]; 0 where nothing is known."""
        if len(self._times) < 2:
            return 0.0, 0.0
        down = self._at(self._down, t_s) - self._at(self._down, t_s - span_s)
        up = self._at(self._up, t_s) - self._at(self._up, t_s - span_s)
        return 8 * down / span_s, 8 * up / span_s

    @property
    def newest_s(self) -> float | None:
        """Time of the newest reading [s]; None: there is none."""
        return self._times[-1] if self._times else None

    def most_bytes(self, begin_s: float, end_s: float) -> tuple[float, float]:
        """Return the bytes between the last reading before `begin_s` and the first one after `end_s`, down and up."""
        if len(self._times) < 2:
            return 0.0, 0.0
        first = max(0, bisect_right(self._times, begin_s) - 1)
        last = min(len(self._times) - 1, bisect_left(self._times, end_s))
        return self._down[last] - self._down[first], self._up[last] - self._up[first]

    def _at(self, series: deque[float], t_s: float) -> float:
        """Return the bytes until `t_s`, between two readings in proportion."""
        place = bisect_right(self._times, t_s)
        if place == 0:
            return series[0]
        if place == len(self._times):
            return series[-1]
        before_s, after_s = self._times[place - 1], self._times[place]
        share = (t_s - before_s) / (after_s - before_s)
        return series[place - 1] + share * (series[place] - series[place - 1])
