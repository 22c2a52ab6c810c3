"""Where the two worlds part for a known reason: what it is, and the test that holds it.

A reason is of a kind of cell, never of one cell's figure, and nothing in the simulator follows from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, stdev, variance
from typing import TYPE_CHECKING

from bentpipe.validation.sim_vs_kernel.judge import (
    DELAY_MS,
    DELAY_RATIO,
    LEAST_N,
    LEVEL,
    QUANTITIES,
    equivalence_p,
    fisher_upper,
    student,
)

if TYPE_CHECKING:
    from bentpipe.runs.figures import Side
    from bentpipe.validation.sim_vs_kernel.judge import Verdict

STANDS_STILL = "tests/test_sim_vs_kernel.py::test_a_machine_that_stands_still_makes_bbr_queue_in_those_seconds"
"""A machine whose processors the hypervisor takes away for a part of an RTT hands on at once what came meanwhile.
Acknowledgements bunch, BBR takes that for bandwidth, and queues what it sends too fast until the sample is ten round
trips old. So BBR alone may meet more delay on the kernel than in the simulator, where ten RTTs are shorter than
a second: in the seconds in which time was stolen and those behind them, which the Run names. In all others both have to
be the same."""

FORGETS = 10
"""RTTs after which BBR's bandwidth filter has forgotten a sample (`bbr_bw_rtts`, Linux `tcp_bbr.c`)."""

MS_PER_S = 1000.0

LEAST_CALM = 10
"""Seconds of each Run without any of that, for the others to be judged by. Chosen here."""

SURE = 0.95
"""Of the intervals and tests that `AgainstItself` rests on."""

FAR = 2.0
"""Limits by which means may be apart at most where chance may be the reason, however a kernel scatters. Chosen here."""


def explained_by(verdict: Verdict) -> str | None:
    """The test that explains all that is outside, or None: nothing is outside, or something has no reason."""
    explained = bool(verdict.outside) and all(_stood_still(verdict, quantity) for quantity in verdict.outside)
    return STANDS_STILL if explained else None


def undecided(verdict: Verdict) -> tuple[str, ...]:
    """Of what is outside that of which so many Runs tell neither; empty: none, or something else has no reason."""
    open_ = [quantity for quantity in verdict.outside if not _stood_still(verdict, quantity)]
    found = [against_itself(verdict, quantity) if quantity in QUANTITIES else None for quantity in open_]
    return tuple(open_) if all(one is not None and one.undecided for one in found) else ()


def _stood_still(verdict: Verdict, quantity: str) -> bool:
    """Whether the delay of BBR alone is shown to be the same in the seconds in which nothing was stolen.

    Only where the second behind a halt is longer than its memory: ten RTTs, each at most twice the delay of the
    data.
    """
    if (verdict.cell.flows, quantity) != ("bbr", "delay") or FORGETS * 2 * verdict.kernel.mean("delay_ms") > MS_PER_S:
        return False
    apart_ms, calm_ms = [], []
    for ours, theirs in zip(verdict.simulated.runs, verdict.kernel.runs, strict=True):
        calm = theirs.calm & ours.seconds.keys()
        if len(calm) < LEAST_CALM or not theirs.stolen:
            return False
        calm_ms.append(theirs.delay_in_ms(calm))
        apart_ms.append(ours.delay_in_ms(calm) - calm_ms[-1])
    limit_ms = max(DELAY_RATIO * fmean(calm_ms), DELAY_MS)
    more = -fmean(verdict.apart(quantity)) > verdict.limit(quantity)
    return more and abs(fmean(apart_ms)) <= limit_ms and equivalence_p(apart_ms, limit_ms) < LEVEL


@dataclass(frozen=True, slots=True)
class AgainstItself:
    """The kernel's Runs of the same seeds on the same paths, made twice.

    Attributes:
        n: Seeds of which the kernel has two Runs.
        scatter: Root mean square of the differences of a seed's two Runs, in the quantity's own unit.
        passes: Whether another such kernel, with as many Runs as the simulator had, could have been shown equal to this
            one, were the means the same.
        nearer: Whether the simulator is as near to the kernel as another such kernel would be.
        steadier: Whether the simulator differs from the kernel, from seed to seed, no more than another such kernel.
        hides: How far apart the means may be in truth without `nearer` telling: half its interval.
        limit: How far apart they may be.
        far: Whether the means are further apart than chance may have it (`FAR`).
        drifted: Whether the kernel's first Runs and its second ones are not of one mean (paired t test): a machine that
            was another the second time excuses nothing.
    """

    n: int
    scatter: float
    passes: bool
    nearer: bool
    steadier: bool
    hides: float
    limit: float
    far: bool
    drifted: bool

    @property
    def undecided(self) -> bool:
        """Whether so many Runs cannot tell chance from a simulator that is off.

        Never a reason: where a kernel scatters so that it would not be shown equal to itself, it could hide a
        simulator that is off by more than the limit, too.
        """
        return not self.passes and self.nearer and self.steadier and not self.far and not self.drifted


def against_itself(verdict: Verdict, quantity: str) -> AgainstItself | None:
    """What the kernel's own repeatability says of `quantity`; None: its Runs were not repeated often enough.

    Were the simulator another such kernel, a seed's Run of it and its two of the kernel would be three draws of one
    normal distribution. Then the difference of the kernel's two, and that of the simulator's from their mean, are
    independent, with variances of 2 and 3/2 of a draw's: so a t and an F test hold the one against the other.
    """
    if verdict.repeated is None or len(verdict.repeated.runs) < LEAST_N:
        return None
    name = QUANTITIES[quantity]

    def values(side: Side) -> list[float]:
        return [float(getattr(run, name)) for run in side.runs]

    repeated = values(verdict.repeated)
    n = len(repeated)
    ours, once = values(verdict.simulated)[:n], values(verdict.kernel)[:n]  # the first seeds
    scatter = math.sqrt(fmean((a - b) ** 2 for a, b in zip(once, repeated, strict=True)))
    beside = [s - (a + b) / 2 for s, a, b in zip(ours, once, repeated, strict=True)]
    apart, limit = verdict.apart(quantity), verdict.limit(quantity)
    error = scatter / math.sqrt(len(apart))
    if quantity == "shares":
        drawn = verdict.share_test.drawn if verdict.share_test is not None else len(apart)
        error = scatter * math.sqrt((1 / len(apart) + 1 / drawn) / 2)
        passes = error == 0.0 or student("sf", limit / error, n) < LEVEL
    else:
        passes = student("ppf", (1 + SURE) / 2, n) * error <= limit
    hides = student("ppf", (1 + SURE) / 2, n) * scatter * math.sqrt(0.75 / n)
    return AgainstItself(
        n=n,
        scatter=scatter,
        passes=passes,
        nearer=abs(fmean(beside)) <= hides,
        steadier=variance(beside) <= fisher_upper(SURE, n - 1, n) * 0.75 * scatter**2,
        hides=hides,
        limit=limit,
        far=abs(fmean(apart)) > FAR * limit,
        drifted=_drifted([a - b for a, b in zip(once, repeated, strict=True)]),
    )


def _drifted(again: list[float]) -> bool:
    """Whether differences of one kernel's Runs, seed by seed, are of a mean that is not zero."""
    error = stdev(again) / math.sqrt(len(again))
    if error == 0.0:
        return fmean(again) != 0.0
    return abs(fmean(again)) / error > student("ppf", (1 + SURE) / 2, len(again) - 1)
