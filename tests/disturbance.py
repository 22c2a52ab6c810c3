"""Valid Runs on machines that are not always calm.

A virtual machine's host takes processors away for milliseconds, and no program inside can prevent that: a Run then is
not valid, and says so, which is right. So tests that need a valid one take the first of a few; where none was valid, a
witness beside them must have met the same.
"""

from __future__ import annotations

import math
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
"""Share of the time that a witness stood still, or that was stolen, from which a machine counts as disturbed. A Run
needs 1 % of late packets not to be valid, but they come in bursts."""

#: On one processor: sleeps a millisecond at a time until its input ends; writes what share of the time it stood still.
WATCH = """
import os, select, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
begin = before = time.monotonic()
still = 0.0
print(flush=True)
while not select.select([0], [], [], 1e-3)[0]:
    now = time.monotonic()
    if now - before > 2e-3:
        still += now - before - 1e-3
    before = now
print(still / (time.monotonic() - begin))
"""


class Witness:
    """Processes that do nothing, one on each processor, which no program of the emulation can wait for."""

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
        stolen = self._ticks.stolen()
        seen = [float(watch.communicate()[0]) for watch in self._watching]
        self.share = max(*seen, 0.0 if math.isnan(stolen) else stolen)


def first_valid(make: Callable[[], tuple[T, str | None]], attempts: int = 5) -> T | None:
    """The first of `attempts` Runs that is valid; `make` gives one with why it is not valid.

    None if the machine was too disturbed for any, which holds only if a witness says so of most of them.
    """
    calm = []
    for _ in range(attempts):
        with Witness() as witness:
            run, why = make()
        if why is None:
            return run
        if witness.share < DISTURBED:
            calm.append(f"{why} (witness: {100 * witness.share:.2f} % of the time)")
    if len(calm) > attempts // 2:
        pytest.fail(f"{len(calm)} of {attempts} Runs were not valid on a calm machine: {calm}", pytrace=False)
    return None
