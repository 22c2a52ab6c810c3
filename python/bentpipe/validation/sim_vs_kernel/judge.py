"""Whether the two worlds agree: limits on means, and an equivalence test for shares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.validation.sim_vs_kernel.cells import Cell
    from bentpipe.validation.sim_vs_kernel.figures import Side

GOODPUT_ALONE = 0.05
GOODPUT_PAIR = 0.03
DELAY_RATIO = 0.05
DELAY_MS = 1.0
RETRANSMIT_RATIO = 0.2
RETRANSMIT_POINT = 0.001
"""Limits: ± 5 % of a lone flow's goodput, ± 3 % of a pair's; delay ± 5 % or 1 ms, retransmit rate ± 20 % or 0.1
percentage point, whichever is more."""

SHARE_MARGIN = 0.05
"""Shares are equal if their means are less than five points apart: both one-sided tests (TOST) reject."""

SHARE_LEVEL = 0.0294
"""Of each of two looks, for 5 % together (Pocock 1977, table 1)."""

LEAST_N = 10
"""Runs that a test wants at least."""


@dataclass(frozen=True, slots=True)
class ShareTest:
    """Two one-sided t tests (Schuirmann 1987) of the first flow's share, paired by seed: both worlds met the same path.

    `difference` is simulated - kernel; `p` the larger of both tests' p-values: below `SHARE_LEVEL` the shares are
    equivalent. `least_p` is what `p` would be were the means the same, or the simulated shares without scatter,
    whichever is less: from that level on the kernel's runs differ so much from each other, and from the simulator's on
    the same paths, that so few of them cannot show equivalence, whatever is true.
    """

    n: int
    simulated: float
    kernel: float
    difference: float
    p: float
    equivalent: bool
    least_p: float

    @property
    def shows_nothing(self) -> bool:
        """Whether the means are within the margin, and no test could have said so."""
        return abs(self.difference) < SHARE_MARGIN and self.least_p >= SHARE_LEVEL


def share_test(simulated: Sequence[float], kernel: Sequence[float]) -> ShareTest | None:
    """Whether shares, seed by seed, are the same within `SHARE_MARGIN`; None: fewer than `LEAST_N`."""
    n = min(len(simulated), len(kernel))
    if n < LEAST_N:
        return None
    apart = [ours - theirs for ours, theirs in zip(simulated, kernel, strict=True)]
    difference, error = fmean(apart), stdev(apart) / math.sqrt(n)
    if error == 0.0:
        p, paired = (0.0 if abs(difference) < SHARE_MARGIN else 1.0), 0.0
    else:
        p = _t_upper_tail((SHARE_MARGIN - abs(difference)) / error, n - 1)
        paired = _t_upper_tail(SHARE_MARGIN / error, n - 1)
    own = stdev(kernel[:n]) / math.sqrt(n)
    least_p = min(paired, _t_upper_tail(SHARE_MARGIN / own, n - 1) if own > 0.0 else 0.0)
    return ShareTest(n, fmean(simulated), fmean(kernel), difference, p, p < SHARE_LEVEL, least_p)


def shows_nothing(ours: Sequence[float], theirs: Sequence[float], limit: float) -> bool:
    """Whether the kernel's own Runs scatter so much that means could not be told to be within `limit` of each other.

    That is so if the kernel's mean is itself not known to `limit` (95 % interval), and the interval of the difference,
    paired by seed, reaches into the limit. Never of fewer than `LEAST_N` Runs.
    """
    n = min(len(ours), len(theirs))
    if n < LEAST_N:
        return False
    reach = _t_quantile(n - 1) / math.sqrt(n)
    apart = [mine - other for mine, other in zip(ours, theirs, strict=True)]
    return reach * stdev(theirs) > limit and abs(fmean(apart)) - reach * stdev(apart) <= limit


def _t_quantile(freedom: int) -> float:
    """Of Student's t, for 95 % on both sides."""
    return _student("ppf", 0.975, freedom)


def _t_upper_tail(t: float, freedom: int) -> float:
    return _student("sf", t, freedom)


def _student(function: str, x: float, freedom: int) -> float:
    try:
        from scipy import stats
    except ModuleNotFoundError as error:
        raise UserError("sim-vs-kernel needs scipy: pip install 'bentpipe[validation]'") from error
    return float(getattr(stats.t, function)(x, freedom))


@dataclass(frozen=True, slots=True)
class Verdict:
    """One cell: both sides' means, their relations, and what is outside (empty: nothing)."""

    cell: Cell
    n: int
    simulated: Side
    kernel: Side
    goodput_ratio: float | None
    delay_ratio: float | None
    delay_diff_ms: float | None
    retransmit_ratio: float | None
    retransmit_diff: float
    share_test: ShareTest | None
    outside: tuple[str, ...]
    why_invalid: str | None = None

    @property
    def within(self) -> bool:
        """Whether everything that could be judged is within its limit."""
        return not self.outside

    def to_dict(self, explained_by: str | None) -> dict[str, Any]:
        """As ``validate --json`` prints it: the promised keys first."""
        test = self.share_test
        return {
            "profile": self.cell.profile,
            "flows": self.cell.flows,
            "n": self.n,
            "goodput_ratio": self.goodput_ratio,
            "delay_ratio": self.delay_ratio,
            "delay_diff_ms": self.delay_diff_ms,
            "retransmit_ratio": self.retransmit_ratio,
            "share_test": None
            if test is None
            else {
                "simulated": test.simulated,
                "kernel": test.kernel,
                "difference": test.difference,
                "p": test.p,
                "equivalent": test.equivalent,
                "least_p": test.least_p,
            },
            "within": self.within,
            "explained_by": explained_by,
            "outside": list(self.outside),
            "why_invalid": self.why_invalid,
            "retransmit_diff_points": 100 * self.retransmit_diff,
            "simulated": _means(self.simulated),
            "kernel": _means(self.kernel)
            | dict(zip(("lateness_p99_ms", "lateness_p999_ms"), self.kernel.lateness_ms or (None, None), strict=True)),
        }


def _means(side: Side) -> dict[str, Any]:
    return {
        "goodput_bps": side.mean("goodput_bps"),
        "delay_ms": known(side.mean("delay_ms")),
        "retransmit_rate": side.mean("retransmit_rate"),
        "shares": [fmean(run.shares[i] for run in side.runs) for i in range(len(side.runs[0].shares))],
    }


def known(value: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None


def goodput_limit(alone: bool, theirs_bps: float) -> float:
    """How far apart goodputs may be [bit/s], of a flow alone or of two."""
    return (GOODPUT_ALONE if alone else GOODPUT_PAIR) * theirs_bps


def delay_limit(theirs_ms: float) -> float:
    """How far apart mean one-way delays may be [ms]."""
    return max(DELAY_RATIO * theirs_ms, DELAY_MS)


def retransmit_limit(theirs: float) -> float:
    """How far apart retransmit rates may be."""
    return max(RETRANSMIT_RATIO * theirs, RETRANSMIT_POINT)


def delay_within(ours_ms: float, theirs_ms: float) -> bool:
    """Whether two mean one-way delays [ms] are within the limit; one that is not known is not."""
    return abs(ours_ms - theirs_ms) <= delay_limit(theirs_ms)


def retransmits_within(ours: float, theirs: float) -> bool:
    """Whether two retransmit rates are within the limit."""
    return abs(ours - theirs) <= retransmit_limit(theirs)


def judge(cell: Cell, simulated: Side, kernel: Side, why_invalid: str | None = None) -> Verdict:
    """Hold both sides against each other; with `why_invalid` the kernel's side is not to be trusted."""
    outside = [] if why_invalid is None else ["invalid"]
    ours, theirs = simulated.mean("goodput_bps"), kernel.mean("goodput_bps")
    goodput = ours / theirs if theirs > 0 else math.nan
    if theirs <= 0 or not abs(ours - theirs) <= goodput_limit(cell.alone, theirs):
        outside.append("goodput")
    our_ms, their_ms = simulated.mean("delay_ms"), kernel.mean("delay_ms")
    difference_ms = our_ms - their_ms
    test = None
    again_ours, again_theirs = simulated.mean("retransmit_rate"), kernel.mean("retransmit_rate")
    again = again_ours - again_theirs
    if cell.alone:
        if not delay_within(our_ms, their_ms):
            outside.append("delay")
        if not retransmits_within(again_ours, again_theirs):
            outside.append("retransmits")
    else:
        test = share_test(simulated.first_shares(), kernel.first_shares())
        if test is not None and not test.equivalent:
            outside.append("shares")
    return Verdict(
        cell=cell,
        n=min(len(simulated.runs), len(kernel.runs)),
        simulated=simulated,
        kernel=kernel,
        goodput_ratio=known(goodput),
        delay_ratio=known(our_ms / their_ms) if their_ms > 0 else None,
        delay_diff_ms=known(difference_ms),
        retransmit_ratio=again_ours / again_theirs if again_theirs > 0 else None,
        retransmit_diff=again,
        share_test=test,
        outside=tuple(outside),
        why_invalid=why_invalid,
    )
