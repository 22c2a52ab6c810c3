"""The time of a board: that of day, which does not go back, with each jump reported once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

JUMP_S = 1.0
"""Difference of time of day and steady time from which the clock was set [s]; NTP slews by 0.5 ms a second."""


def _steady_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class BoardClock:
    """Time of day for windows, checked against a steady clock.

    Example:
        >>> wall, steady = iter([100.0, 101.0, 5000.0]), iter([7.0, 8.0, 9.0])
        >>> clock = BoardClock(lambda: next(wall), lambda: next(steady))
        >>> clock.now(), clock.now(), clock.now()
        ((100.0, 0.0), (101.0, 0.0), (5000.0, 3898.0))
    """

    def __init__(self, wall_s: Callable[[], float] = time.time, steady_s: Callable[[], float] = _steady_s) -> None:
        """Begin now.

        Args:
            wall_s: Returns the time of day [s since 1970].
            steady_s: Returns a time that nobody sets [s].
        """
        self._wall_s, self._steady_s = wall_s, steady_s
        self._last: tuple[float, float] | None = None

    def now(self) -> tuple[float, float]:
        """Return the time [s since 1970], and by how much the clock was set since the last call [s]; 0: not at all."""
        wall_s, steady_s = self._wall_s(), self._steady_s()
        last, self._last = self._last, (wall_s, steady_s)
        if last is None:
            return wall_s, 0.0
        shift_s = wall_s - (last[0] + steady_s - last[1])
        if abs(shift_s) > JUMP_S:
            return wall_s, shift_s
        wall_s = max(wall_s, last[0])
        self._last = (wall_s, steady_s)
        return wall_s, 0.0
