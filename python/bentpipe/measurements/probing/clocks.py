"""The machine's clocks beside each other: a time of day that jumps, and a machine that slept, are noticed.

Kernel stamps are of CLOCK_REALTIME, which somebody may set. CLOCK_MONOTONIC is never set and stands still while the
machine sleeps; CLOCK_BOOTTIME goes on then.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

#: A step of the time of day from here on is a jump [ns]. Chosen here: adjusting moves it by 500 ppm at most
#: (adjtimex(2)), 0.05 ms in the tenth of a second between two looks.
STEP_NS = 1_000_000
#: Two clocks are read one after the other; a reading in which this process was put aside for longer says nothing [ns].
_APART_NS = 100_000
_READINGS = 5


@dataclass(frozen=True, slots=True)
class Jump:
    """What happened to the clocks between two looks.

    Attributes:
        kind: ``"clock_jump"`` or ``"suspended"``.
        by_s: How far the time of day was moved, or how long the machine slept [s].
    """

    kind: str
    by_s: float


class Clocks:
    """Looks at the clocks.

    Attributes:
        jumps: How many jumps of the time of day there were: stamps from before and after one do not compare.
    """

    def __init__(self) -> None:
        """Takes them as they are."""
        self.jumps = 0
        self._offsets = _offsets()

    def look(self) -> list[Jump]:
        """What happened since the last look."""
        now, before = _offsets(), self._offsets
        if now is None:
            return []
        self._offsets = now
        if before is None:
            return []
        found = []
        slept_ns = now[1] - before[1]
        if slept_ns > STEP_NS:
            found.append(Jump("suspended", slept_ns / 1e9))
        moved_ns = now[0] - before[0] - slept_ns
        if abs(moved_ns) > STEP_NS:
            found.append(Jump("clock_jump", moved_ns / 1e9))
        if found:
            self.jumps += 1
        return found


def _offsets() -> tuple[int, int] | None:
    """Time of day and time since boot less the time awake [ns]; None if this process was put aside while reading."""
    for _ in range(_READINGS):
        before = time.monotonic_ns()
        day = time.time_ns()
        boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        after = time.monotonic_ns()
        if after - before < _APART_NS:
            return day - after, boot - after
    return None
