"""Claim: a wrong clock of the host, one that jumps, and one whose program was killed cost no more than 3 %.

README.md beside this file states the claim and its tests. This module simulates; `emulated` uses this machine's kernel.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from bentpipe.validation import Outcome
from bentpipe.validation.kernel_safety import clocks, simulated
from bentpipe.validation.kernel_safety.rows import rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.validation import OnProgress

CLAIM = "kernel-safety"


def check(data: Path | None, on_progress: OnProgress, *, quick: bool = False) -> Outcome:
    """Simulate downloads beside right and wrong clocks; needs no data."""
    del data
    done = simulated.scores(on_progress, quick=quick)
    every = clocks.QUICK if quick else clocks.EVERY
    duration_s = simulated.QUICK_DURATION_S if quick else simulated.DURATION_S
    first_s = None if quick else simulated.FIRST_S
    rows = [row for scheme in simulated.PARENTS for clock in every for row in rows_of(done, scheme, clock, first_s)]
    leo, still = (len({each.path for each in done if each.is_leo == is_leo}) for is_leo in (True, False))
    notes = [
        f"{leo} LEO paths and {still} others, one seed, {duration_s:g} s each without the first "
        f"{simulated.WARMUP_S:g} s; intervals are bootstraps of 95 % over paths, paired by path",
        "a clock's value is that of the same controller without one: what is below 1 there is the clock's doing",
        f"a shorter flow is the first {simulated.FIRST_S:g} s of the same Run: later the flow's own clock may replace "
        "the host's",
    ]
    return Outcome(CLAIM, rows, notes, cells=[asdict(each) for each in done])
