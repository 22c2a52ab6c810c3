"""Where the two worlds part for a known reason: what it is, and the test that holds it.

A reason is of a kind of cell, never of one cell's figure, and nothing in the simulator follows from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, variance
from typing import TYPE_CHECKING

from bentpipe.validation.sim_vs_kernel.judge import LEAST_N, LEVEL, QUANTITIES, fisher_upper, student

if TYPE_CHECKING:
    from bentpipe.validation.sim_vs_kernel.judge import Verdict

STANDS_STILL = "tests/test_sim_vs_kernel.py::test_a_path_that_stands_still_for_milliseconds_makes_bbr_queue"
"""A relay that stands still for a part of a short round trip hands on at once what came meanwhile. Acknowledgements
bunch, BBR takes that for bandwidth, and queues what it sends too fast until the sample is ten round trips old. So on
the shortest path (fibre) a BBR flow alone may meet more delay on the kernel than in the simulator, which is never late:
more, never less, and by no more than the test's."""

QUEUED_PER_LATE = 1.1
"""Delay that BBR adds for each millisecond of p99.9 lateness: in that test 4.3 ms for 4 ms."""

CHANCE = "tests/test_sim_vs_kernel.py::test_a_kernel_that_does_not_repeat_itself_tells_nothing_apart"
"""The kernel held against itself, with the same seeds on the same paths, does not pass the test either, and is as far
apart as the simulator is from it."""

SURE = 0.95
"""Of the intervals that `CHANCE` rests on."""


def explained_by(verdict: Verdict) -> str | None:
    """The tests that explain all that is outside, or None: nothing is outside, or something has no reason."""
    tests = []
    for quantity in verdict.outside:
        if _stood_still(verdict, quantity):
            tests.append(STANDS_STILL)
        elif quantity in QUANTITIES and (found := against_itself(verdict, quantity)) and found.explains:
            tests.append(CHANCE)
        else:
            return None
    return "; ".join(dict.fromkeys(tests)) or None


def _stood_still(verdict: Verdict, quantity: str) -> bool:
    """Whether every Run that is outside is late enough for what it is outside by; one late Run excuses no other."""
    if (verdict.cell.profile, verdict.cell.flows, quantity) != ("fibre", "bbr", "delay"):
        return False
    limit_ms = verdict.limit(quantity)
    kernel = verdict.kernel.runs
    # Kernel - simulator.
    excess_ms = [-apart for apart in verdict.apart(quantity)]
    outside = [(ms, run) for ms, run in zip(excess_ms, kernel, strict=True) if not abs(ms) <= limit_ms]
    if not outside:
        return False  # all together, but none by itself: that is no halt of one Run
    return all(run.lateness_ms and 0.0 < ms <= QUEUED_PER_LATE * run.lateness_ms[1] for ms, run in outside)


@dataclass(frozen=True, slots=True)
class AgainstItself:
    """The kernel's Runs of the same seeds on the same paths, made twice.

    Attributes:
        scatter: Root mean square of the differences of a seed's two Runs, in the quantity's own unit.
        passes: Whether so many Runs of a kernel could be shown equal to another such kernel's, were the means the same.
        nearer: Whether the simulator is as near to the kernel as another such kernel would be.
        steadier: Whether simulator and kernel differ from seed to seed no more than the kernel from itself.
    """

    scatter: float
    passes: bool
    nearer: bool
    steadier: bool

    @property
    def explains(self) -> bool:
        """Whether what is outside is outside by chance, as far as so many Runs can tell."""
        return not self.passes and self.nearer and self.steadier


def against_itself(verdict: Verdict, quantity: str) -> AgainstItself | None:
    """What the kernel's own repeatability says of `quantity`; None: its Runs were not repeated often enough.

    Only the kernel's own scatter counts: a simulator that scatters more is not excused by that.
    """
    if verdict.repeated is None or len(verdict.repeated.runs) < LEAST_N:
        return None
    name = QUANTITIES[quantity]
    pairs = zip(verdict.kernel.runs, verdict.repeated.runs, strict=False)  # the first seeds
    own = [float(getattr(once, name)) - float(getattr(again, name)) for once, again in pairs]
    scatter = math.sqrt(fmean(apart**2 for apart in own))
    apart, limit = verdict.apart(quantity), verdict.limit(quantity)
    error = scatter / math.sqrt(len(apart))
    if quantity == "shares":
        passes = error == 0.0 or student("sf", limit / error, len(own)) < LEVEL
    else:
        passes = student("ppf", (1 + SURE) / 2, len(own)) * error <= limit
    nearer = abs(fmean(apart)) <= student("ppf", (1 + SURE) / 2, len(own)) * error
    steadier = variance(apart) <= fisher_upper(SURE, len(apart) - 1, len(own)) * scatter**2
    return AgainstItself(scatter, passes, nearer, steadier)
