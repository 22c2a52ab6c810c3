"""Clocks of a host, right and wrong ones, as writes to the map that a kernel's controllers read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bentpipe.execution.host_clock import ClockWrite
from bentpipe.kernel.clock.daemon import VALID_NS
from bentpipe.times import SLOT_S

JUMP_EVERY_S = 20.0
"""Time between two jumps [s]. Chosen here: a slot and a third, so that no slot has the same clock all the time."""
VALID_S = VALID_NS / 1e9
"""So long the clock of a killed program is valid."""
OFFSETS_S = (0.1, 0.3, 1.0, 2.5, 5.0)
"""Errors of the phase (issue 21), early and late; 7.5 s is both."""


@dataclass(frozen=True)
class Clock:
    """A clock of a host beside slots of 15 s.

    Attributes:
        name: As in rows.
        offset_s: Its times are so much later than the handovers.
        period_s: Its period; 0: there is no clock.
        jumps: Whether its phase is drawn anew every `JUMP_EVERY_S`.
        is_killed: Whether the program that renews it is killed at half time.
        is_judged: Whether the claim speaks of it.
    """

    name: str
    offset_s: float = 0.0
    period_s: float = SLOT_S
    jumps: bool = False
    is_killed: bool = False
    is_judged: bool = True

    def writes(self, edge_s: float, duration_s: float, seed: int) -> list[ClockWrite]:
        """Return what is written in a Run from the start of a Profile on.

        Args:
            edge_s: Time of one handover in the Profile, as of every 15 s before and after it.
            duration_s: Duration of the Run.
            seed: Of the jumps.

        Example:
            >>> from bentpipe.validation.kernel_safety.clocks import Clock
            >>> Clock("late", 2.5).writes(12.0, 60.0, 0)
            [ClockWrite(written_s=0.0, period_s=15, at_s=14.5, until_s=65.0)]
        """
        if not self.period_s:
            return []
        end_s = duration_s / 2 if self.is_killed else duration_s
        if not self.jumps:
            at_s = (edge_s + self.offset_s) % self.period_s
            return [ClockWrite(0.0, self.period_s, at_s, end_s + VALID_S)]
        times_s = np.arange(0.0, duration_s, JUMP_EVERY_S).tolist()
        phases_s = np.random.default_rng([21, seed]).uniform(0.0, self.period_s, len(times_s)).tolist()
        return [
            ClockWrite(written_s, self.period_s, phase_s, end_s + VALID_S)
            for written_s, phase_s in zip(times_s, phases_s, strict=True)
        ]


NONE = Clock("no clock", period_s=0.0, is_judged=False)
RIGHT = Clock("right clock")
JUMPING = Clock(f"clock that jumps every {JUMP_EVERY_S:g} s", jumps=True)
KILLED = Clock("right clock, killed at half time", is_killed=True)
LATE = Clock("clock 2.5 s late", 2.5)
EVERY = (
    NONE,
    RIGHT,
    *(
        Clock(f"clock {offset_s:g} s {word}", offset_s * sign)
        for offset_s in OFFSETS_S
        for word, sign in (("late", 1), ("early", -1))
    ),
    Clock("clock 7.5 s off", 7.5),
    JUMPING,
    KILLED,
    Clock("clock of 13 s", period_s=13.0),
    Clock("clock of 1 s", period_s=1.0, is_judged=False),
)
"""A period of 1 s is the least that a controller takes: no source of bentpipe gives one, so it is reported only."""
QUICK = (NONE, LATE, JUMPING, KILLED)
