"""Valid Runs on machines that are not always calm.

A virtual machine's host takes processors away for milliseconds, and no program inside can prevent that: a Run then is
not valid, and says so, which is right. So tests that need a valid one take the first of a few; where none was valid, a
witness beside them must have met the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Self, TypeVar

import pytest

from bentpipe.validation.emulator.calm import Ticks

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

DISTURBED = 0.003
"""Share of the time that a witness stood still from which a machine counts as disturbed: a Run is not valid from 1 % of
late packets on, but they come in bursts."""

STOLEN = 0.01
"""The same of processor time that the host says it took, which it counts in steps of 10 ms."""

#: On one processor: sleeps a millisecond at a time until its input ends; writes what share of the time it stood still.
#: Before everything else where it may, the emulator too (which has the lowest of these priorities): otherwise what that
#: takes of the processor would excuse it.
WATCH = """
import os, select, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_max(os.SCHED_FIFO)))
except PermissionError:
    pass
begin = before = time.monotonic()
still = 0.0
print(flush=True)
while not select.select([0], [], [], 1e-3)[0]:
    now = time.monotonic()
    if now - before > 3e-3:
        still += now - before - 1e-3
    before = now
print(still / (time.monotonic() - begin))
"""


class Witness:
    """Processes that only look at the clock, one on each processor."""

    def __enter__(self) -> Self:
        """They watch."""
        self._ticks = Ticks()
        self._watching = [
            subprocess.Popen(
                [sys.executable, "-c", WATCH, str(processor)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for processor in sorted(os.sched_getaffinity(0))
        ]
        for watch in self._watching:
            watch.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        """They say what they saw."""
        self.stolen = self._ticks.stolen()
        self.still = max(float(watch.communicate()[0] or "nan") for watch in self._watching)

    @property
    def was_disturbed(self) -> bool:
        """Whether it saw that."""
        return self.still >= DISTURBED or self.stolen >= STOLEN

    def __str__(self) -> str:
        """What it saw."""
        return f"a witness stood still for {self.still:.2%} of the time, the host took {self.stolen:.2%}"


def first_valid(make: Callable[[], tuple[T, str | None]], attempts: int = 5) -> T | str:
    """The first of `attempts` Runs that is valid; `make` gives one with why it is not valid.

    A string, with which to skip what only a valid Run shows, if the machine was too disturbed for any; that holds only
    if a witness says so of most of them, else the test fails.
    """
    calm, disturbance = [], ""
    for _ in range(attempts):
        with Witness() as witness:
            run, why = make()
        if why is None:
            return run
        disturbance = f"{why}; {witness}"
        if not witness.was_disturbed:
            calm.append(disturbance)
    if 2 * len(calm) >= attempts:
        pytest.fail(f"{len(calm)} of {attempts} Runs were not valid on a calm machine: {calm}", pytrace=False)
    return f"no Run in {attempts} was valid, since this machine is disturbed: {disturbance}"
