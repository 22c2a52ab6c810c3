"""Comparison of the machine's clocks, to detect clock steps and system suspend.

Kernel timestamps are of CLOCK_REALTIME, which can be set. CLOCK_MONOTONIC is never set and stops while the machine is
suspended; CLOCK_BOOTTIME continues then.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

#: Smallest step of the wall clock that counts as a jump [ns]. Chosen here: slewing moves it by 500 ppm at most
#: (adjtimex(2)), 0.05 ms in the tenth of a second between two readings.
STEP_NS = 1_000_000
#: The clocks are read one after the other; a reading that took longer, because the process was preempted, is discarded
#: [ns].
_APART_NS = 100_000
_READINGS = 5


@dataclass(frozen=True, slots=True)
class Jump:
    """A clock step or a suspend between two readings.

    Attributes:
        kind: ``"clock_jump"`` or ``"suspended"``.
        by_s: Size of the step of the wall clock, or duration of the suspend [s].
    """

    kind: str
    by_s: float


class Clocks:
    """Detector of clock jumps.

    Attributes:
        jumps: Number of jumps so far; timestamps from before and after a jump are not comparable.
    """

    def __init__(self) -> None:
        """Take the first reading."""
        self.jumps = 0
        self._offsets = _offsets()

    def look(self) -> list[Jump]:
        """Return the jumps since the last reading."""
        now, before = _offsets(), self._offsets
        if now is None:
            return []
        self._offsets = now
        if before is None:
            return []
        jumps = []
        slept_ns = now[1] - before[1]
        if slept_ns > STEP_NS:
            jumps.append(Jump("suspended", slept_ns / 1e9))
        moved_ns = now[0] - before[0] - slept_ns
        if abs(moved_ns) > STEP_NS:
            jumps.append(Jump("clock_jump", moved_ns / 1e9))
        if jumps:
            self.jumps += 1
        return jumps


def _offsets() -> tuple[int, int] | None:
    """Return CLOCK_REALTIME and CLOCK_BOOTTIME minus CLOCK_MONOTONIC [ns]; None: preempted while reading."""
    for _ in range(_READINGS):
        before = time.monotonic_ns()
        day = time.time_ns()
        boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        after = time.monotonic_ns()
        if after - before < _APART_NS:
            return day - after, boot - after
    return None
