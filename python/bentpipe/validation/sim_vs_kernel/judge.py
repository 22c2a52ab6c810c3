"""Whether the two worlds agree: limits on means, and an equivalence test for shares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.runs.figures import Side
    from bentpipe.validation.sim_vs_kernel.cells import Cell

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

LEVEL = 0.0221
"""Of each one-sided test of three looks, for 5 % together: Pocock's (1977, table 1) for looks equally far apart, at
which it is 4.8 %; at 10, 20 and 40 it is 5.0 % (normal figures, 400,000 draws). A lone flow's two looks have less."""

LEAST_N = 10
"""Runs that a test of shares wants at least."""

QUANTITIES = {"goodput": "goodput_bps", "delay": "delay_ms", "retransmits": "retransmit_rate", "shares": "first_share"}
"""What is judged, and where a Run's `Figures` have it."""


@dataclass(frozen=True, slots=True)
class ShareTest:
    """Two one-sided t tests (Schuirmann 1987) of the first flow's share.

    Both worlds met the same paths, seed by seed, and the simulator more of them: the kernel's mean is its own, brought
    by regression from the seeds that it had to all that the simulator had (double sampling: Cochran, Sampling
    Techniques, 1977, section 12.6). Where the worlds follow one another seed by seed that is a paired test; where
    chance decides anew in each, the simulator's own scatter is spared.

    `simulated`: its mean over `drawn` seeds; `kernel`: its own over `n`. `difference` is simulated - kernel, over all
    seeds; `p` the larger of both tests' p-values: below `LEVEL` the shares are equivalent.
    """

    n: int
    drawn: int
    simulated: float
    kernel: float
    difference: float
    p: float
    equivalent: bool


def equivalence_p(apart: Sequence[float], limit: float) -> float:
    """The larger p-value of two one-sided t tests that differences, one a seed, are less than `limit` in the mean.

    1 of a single one: it says nothing of how they scatter.
    """
    n = len(apart)
    if n < 2:
        return 1.0
    return _beyond(fmean(apart), stdev(apart) / math.sqrt(n), limit, n - 1)


def _beyond(difference: float, error: float, limit: float, freedom: int) -> float:
    """The larger p-value of two one-sided t tests that a difference with this standard error is less than `limit`."""
    if error == 0.0:
        return 0.0 if abs(difference) < limit else 1.0
    return student("sf", (limit - abs(difference)) / error, freedom)


def share_test(simulated: Sequence[float], kernel: Sequence[float], more: Sequence[float] = ()) -> ShareTest | None:
    """Whether shares are the same within `SHARE_MARGIN`; None: fewer than `LEAST_N`.

    Args:
        simulated: Of the kernel's seeds, seed by seed.
        kernel: Of as many.
        more: The simulator's of further seeds.
    """
    n = min(len(simulated), len(kernel))
    if n < LEAST_N:
        return None
    drawn = [*simulated, *more]
    both, all_of_them, theirs = fmean(simulated), fmean(drawn), fmean(kernel)
    spread = sum((x - both) ** 2 for x in simulated)
    together = sum((x - both) * (y - theirs) for x, y in zip(simulated, kernel, strict=True))
    slope = together / spread if spread > 0 else 0.0
    left = sum((y - theirs - slope * (x - both)) ** 2 for x, y in zip(simulated, kernel, strict=True)) / (n - 2)
    moved = (both - all_of_them) ** 2 / spread if spread > 0 else 0.0
    error = math.sqrt(left * (1 / n + moved) + (1 - slope) ** 2 * stdev(drawn) ** 2 / len(drawn))
    difference = all_of_them - (theirs + slope * (all_of_them - both))
    p = _beyond(difference, error, SHARE_MARGIN, n - 2)
    return ShareTest(n, len(drawn), all_of_them, theirs, difference, p, p < LEVEL)


def student(function: str, x: float, freedom: int) -> float:
    """SciPy's `function` of Student's t.

    Raises `UserError` where SciPy is not installed.
    """
    return float(getattr(_stats().t, function)(x, freedom))


def fisher_upper(part: float, above: int, below: int) -> float:
    """The quantile `part` of Fisher's F: what two variances of the same size are apart by at most."""
    return float(_stats().f.ppf(part, above, below))


def _stats() -> Any:  # noqa: ANN401 - SciPy has no types
    try:
        from scipy import stats
    except ModuleNotFoundError as error:
        raise UserError("sim-vs-kernel needs scipy: pip install 'bentpipe[validation]'") from error
    return stats


@dataclass(frozen=True, slots=True)
class Verdict:
    """One cell: both sides' means, their relations, and what is outside (empty: nothing).

    `unsure`: quantities whose mean is inside, but whose scatter leaves it unproven (at `LEVEL`). `repeated`: the
    kernel's Runs of the first seeds once more. `simulated` has the kernel's seeds only, `share_test` the simulator's
    others, too.
    """

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
    unsure: tuple[str, ...] = ()
    why_invalid: str | None = None
    repeated: Side | None = None

    @property
    def within(self) -> bool:
        """Whether everything that could be judged is within its limit."""
        return not self.outside

    @property
    def in_doubt(self) -> bool:
        """Whether more Runs would say more."""
        return bool(self.outside or self.unsure)

    def apart(self, quantity: str) -> list[float]:
        """Simulated - kernel, seed by seed."""
        return _apart(self.simulated, self.kernel, quantity)

    def limit(self, quantity: str) -> float:
        """How far apart the means of `quantity` may be."""
        return limit_of(self.cell.alone, quantity, self.kernel)

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
                "drawn": test.drawn,
                "simulated": test.simulated,
                "kernel": test.kernel,
                "difference": test.difference,
                "p": test.p,
                "equivalent": test.equivalent,
            },
            "within": self.within,
            "explained_by": explained_by,
            "outside": list(self.outside),
            "unsure": list(self.unsure),
            "why_invalid": self.why_invalid,
            "retransmit_diff_points": 100 * self.retransmit_diff,
            "simulated": _means(self.simulated),
            "kernel": _means(self.kernel)
            | dict(zip(("lateness_p99_ms", "lateness_p999_ms"), self.kernel.lateness_ms or (None, None), strict=True))
            | {"lateness_of_runs_ms": [run.lateness_ms for run in self.kernel.runs]},
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


def limit_of(alone: bool, quantity: str, kernel: Side) -> float:
    """How far apart the means of `quantity` may be, of a flow alone or of two; in the quantity's own unit."""
    if quantity == "shares":
        return SHARE_MARGIN
    theirs = kernel.mean(QUANTITIES[quantity])
    if quantity == "goodput":
        return (GOODPUT_ALONE if alone else GOODPUT_PAIR) * theirs
    if quantity == "delay":
        return max(DELAY_RATIO * theirs, DELAY_MS)
    return max(RETRANSMIT_RATIO * theirs, RETRANSMIT_POINT)


def _apart(ours: Side, theirs: Side, quantity: str) -> list[float]:
    name = QUANTITIES[quantity]
    pairs = zip(ours.runs, theirs.runs, strict=True)  # seed by seed
    return [float(getattr(mine, name)) - float(getattr(other, name)) for mine, other in pairs]


def judge(
    cell: Cell,
    simulated: Side,
    kernel: Side,
    why_invalid: str | None = None,
    more: Side | None = None,
    repeated: Side | None = None,
) -> Verdict:
    """Hold both sides against each other.

    Args:
        cell: Of which flows.
        simulated: The simulator's Runs of the kernel's seeds.
        kernel: The kernel's.
        why_invalid: Why the kernel's side is not to be trusted; None: it is.
        more: The simulator's of further seeds.
        repeated: The kernel's once more, of the first seeds.
    """
    outside = [] if why_invalid is None else ["invalid"]
    unsure = []
    for quantity in ("goodput", "delay", "retransmits") if cell.alone else ("goodput",):
        limit = limit_of(cell.alone, quantity, kernel)
        apart = _apart(simulated, kernel, quantity)
        nothing = quantity == "goodput" and kernel.mean("goodput_bps") <= 0
        if nothing or not abs(fmean(apart)) <= limit:
            outside.append(quantity)
        elif not equivalence_p(apart, limit) < LEVEL:
            unsure.append(quantity)
    test = None
    if not cell.alone:
        test = share_test(simulated.first_shares(), kernel.first_shares(), more.first_shares() if more else ())
        if test is None:
            unsure.append("shares")  # too few Runs to tell
        elif not test.equivalent:
            outside.append("shares")
    theirs, our_ms, their_ms = kernel.mean("goodput_bps"), simulated.mean("delay_ms"), kernel.mean("delay_ms")
    again_ours, again_theirs = simulated.mean("retransmit_rate"), kernel.mean("retransmit_rate")
    return Verdict(
        cell=cell,
        n=min(len(simulated.runs), len(kernel.runs)),
        simulated=simulated,
        kernel=kernel,
        goodput_ratio=known(simulated.mean("goodput_bps") / theirs) if theirs > 0 else None,
        delay_ratio=known(our_ms / their_ms) if their_ms > 0 else None,
        delay_diff_ms=known(our_ms - their_ms),
        retransmit_ratio=again_ours / again_theirs if again_theirs > 0 else None,
        retransmit_diff=again_ours - again_theirs,
        share_test=test,
        outside=tuple(outside),
        unsure=tuple(unsure),
        why_invalid=why_invalid,
        repeated=repeated,
    )
