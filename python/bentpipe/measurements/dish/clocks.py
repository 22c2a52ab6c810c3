"""Clocks: the machine's, one that runs faster, and one that stands until it is set."""

from __future__ import annotations

import time
from typing import Protocol

from bentpipe.errors import UserError


class Clock(Protocol):
    """What time it is, and waiting."""

    def now_unix_ns(self) -> int:
        """Nanoseconds since 1970."""

    def elapsed_ns(self) -> int:
        """Nanoseconds since some moment, at the latest the machine's start: even, whatever the time of day does."""

    def sleep_s(self, seconds: float) -> None:
        """Lets as much of this clock's time pass."""


class WallClock:
    """The machine's clock."""

    def now_unix_ns(self) -> int:
        """As the machine has it; it may jump."""
        return time.time_ns()

    def elapsed_ns(self) -> int:
        """Since the machine started, the time that it was suspended for too."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def sleep_s(self, seconds: float) -> None:
        """Sleeps."""
        time.sleep(max(0.0, seconds))


class FastClock:
    """The machine's clock at its start, from then on `speed` times as fast and without jumps."""

    def __init__(self, speed: float) -> None:
        """`speed`: above zero, at most a day a second.

        Raises:
            UserError: It is not.
        """
        if not 0 < speed <= 86_400:
            raise UserError(f"speed: {speed:g}; wanted more than 0 and at most 86400")
        self._speed = speed
        self._start_unix_ns, self._start_ns = time.time_ns(), time.monotonic_ns()

    def now_unix_ns(self) -> int:
        """Time in the sped-up world."""
        return self._start_unix_ns + self.elapsed_ns()

    def elapsed_ns(self) -> int:
        """Since it was made."""
        return round((time.monotonic_ns() - self._start_ns) * self._speed)

    def sleep_s(self, seconds: float) -> None:
        """Sleeps as much less."""
        time.sleep(max(0.0, seconds / self._speed))


class SetClock:
    """Stands still but for what is slept: for replays and tests, as fast as the work allows."""

    def __init__(self, unix_ns: int) -> None:
        """The time it shows."""
        self._unix_ns = unix_ns

    def now_unix_ns(self) -> int:
        """The time it was set to, and what was slept since."""
        return self._unix_ns

    def elapsed_ns(self) -> int:
        """It never jumps."""
        return self._unix_ns

    def sleep_s(self, seconds: float) -> None:
        """Moves on at once."""
        self._unix_ns += round(max(0.0, seconds) * 1e9)
