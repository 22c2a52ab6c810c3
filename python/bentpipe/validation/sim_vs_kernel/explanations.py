"""Known reasons for differences between the two worlds, each with the test that asserts it.

A reason holds for a kind of cell, never for one cell's result. Nothing in the simulator depends on it.
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

STANDS_STILL = "tests/test_sim_vs_kernel.py::test_bbr_queues_more_in_seconds_with_stolen_time"
"""If the hypervisor takes a machine's processors away for part of an RTT, the packets that arrive meanwhile are
processed together. Acknowledgements bunch, BBR overestimates the bandwidth and sends too fast until the sample is ten
RTTs old. So BBR alone may have more delay on the kernel than in the simulator, where ten RTTs are shorter than a
second: in the seconds with stolen time, which the Run names, and the seconds after them. In all others both must be
equal."""

FORGETS = 10
"""RTTs after which BBR's bandwidth filter has forgotten a sample (`bbr_bw_rtts`, Linux `tcp_bbr.c`)."""

MS_PER_S = 1000.0

LEAST_CALM = 10
"""Smallest number of seconds of each Run without stolen time, for a comparison. Chosen here."""

SURE = 0.95
"""Confidence of the intervals and tests of `AgainstItself`."""

FAR = 2.0
"""Largest difference of the means that chance may explain, in limits, however a kernel scatters. Chosen here."""


def explained_by(verdict: Verdict) -> str | None:
    """Return the test that explains everything outside; None: nothing is outside, or something has no reason."""
    explained = bool(verdict.outside) and all(_stood_still(verdict, quantity) for quantity in verdict.outside)
    return STANDS_STILL if explained else None


def undecided(verdict: Verdict) -> tuple[str, ...]:
    """Return the quantities outside for which the number of Runs decides nothing.

    Empty: none, or something else is outside without a reason.
    """
    open_ = [quantity for quantity in verdict.outside if not _stood_still(verdict, quantity)]
    repeated = [against_itself(verdict, quantity) if quantity in QUANTITIES else None for quantity in open_]
    return tuple(open_) if all(one is not None and one.undecided for one in repeated) else ()


def _stood_still(verdict: Verdict, quantity: str) -> bool:
    """Return whether the delay of BBR alone is equal in the seconds without stolen time.

    Holds only if the second after a stolen one is longer than BBR's memory: ten RTTs, each at most twice the data's
    delay.
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
    """Repeatability of the kernel: two Runs of the same seeds on the same paths.

    Attributes:
        n: Seeds of which the kernel has two Runs.
        scatter: Root mean square of the differences between a seed's two Runs, in the quantity's own unit.
        passes: Whether a second such kernel, with the simulator's number of Runs and an equal mean, could have been
            shown equal to this one.
        nearer: Whether the simulator is as near to the kernel as a second such kernel would be.
        steadier: Whether the simulator differs from the kernel, from seed to seed, no more than a second such kernel.
        hides: Largest difference of the true means that `nearer` cannot detect: half its interval.
        limit: Largest difference of the means that the claim allows.
        far: Whether the means differ by more than chance may explain (`FAR`).
        drifted: Whether the kernel's first and second Runs have different means (paired t test). A machine that changed
            in between explains nothing.
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
        """Whether this number of Runs cannot tell chance from a wrong simulator.

        Never a reason: a kernel that scatters so much that it would not be shown equal to itself could also hide a
        simulator that is wrong by more than the limit.
        """
        return not self.passes and self.nearer and self.steadier and not self.far and not self.drifted


def against_itself(verdict: Verdict, quantity: str) -> AgainstItself | None:
    """Measure the kernel's repeatability of `quantity`; None: too few repeated Runs.

    If the simulator were another such kernel, its Run of a seed and the kernel's two would be three draws of one normal
    distribution. Then the difference of the kernel's two, and that of the simulator's from their mean, are independent,
    with variances of 2 and 3/2 of a draw's; a t test and an F test compare them.
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
    """Return whether the differences between two Runs of each seed have a mean other than zero."""
    error = stdev(again) / math.sqrt(len(again))
    if error == 0.0:
        return fmean(again) != 0.0
    return abs(fmean(again)) / error > student("ppf", (1 + SURE) / 2, len(again) - 1)
