"""Clocks: the machine's, a faster one, and a manual one for tests."""

from __future__ import annotations

import time
from typing import Protocol

from bentpipe.errors import UserError


class Clock(Protocol):
    """A clock that tells the time and waits."""

    def now_unix_ns(self) -> int:
        """Return the time of day [ns since 1970]."""

    def elapsed_ns(self) -> int:
        """Return monotonic time [ns]: it does not jump when the time of day is set."""

    def sleep_s(self, seconds: float) -> None:
        """Wait for a time of this clock [s]."""


class WallClock:
    """The machine's clock."""

    def now_unix_ns(self) -> int:
        """Return the machine's time of day, which may jump."""
        return time.time_ns()

    def elapsed_ns(self) -> int:
        """Return the time since the machine started, including suspension [ns]."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def sleep_s(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(max(0.0, seconds))


class FastClock:
    """A clock that starts at the machine's time and runs `speed` times as fast, without jumps."""

    def __init__(self, speed: float) -> None:
        """`speed`: above 0, at most 86400 (a day a second).

        Raises:
            UserError: The speed is out of range.
        """
        if not 0 < speed <= 86_400:
            raise UserError(f"speed: {speed:g}; expected more than 0 and at most 86400")
        self._speed = speed
        self._start_unix_ns, self._start_ns = time.time_ns(), time.monotonic_ns()

    def now_unix_ns(self) -> int:
        """Return the sped-up time of day [ns since 1970]."""
        return self._start_unix_ns + self.elapsed_ns()

    def elapsed_ns(self) -> int:
        """Return the sped-up time since creation [ns]."""
        return round((time.monotonic_ns() - self._start_ns) * self._speed)

    def sleep_s(self, seconds: float) -> None:
        """Sleep for the time divided by the speed."""
        time.sleep(max(0.0, seconds / self._speed))


class SetClock:
    """A manual clock that only advances by sleeping, for replays and tests."""

    def __init__(self, unix_ns: int) -> None:
        """`unix_ns`: initial time [ns since 1970]."""
        self._unix_ns = unix_ns

    def now_unix_ns(self) -> int:
        """Return the initial time plus all sleeps [ns since 1970]."""
        return self._unix_ns

    def elapsed_ns(self) -> int:
        """Return the same time; it never jumps."""
        return self._unix_ns

    def sleep_s(self, seconds: float) -> None:
        """Advance the clock at once."""
        self._unix_ns += round(max(0.0, seconds) * 1e9)
