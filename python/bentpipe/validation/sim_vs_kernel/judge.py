"""Judge whether the two worlds agree: limits on means, and an equivalence test for shares."""

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
"""Level of each one-sided test of three looks, for 5 % together: Pocock (1977, table 1) for equally spaced looks, which
give 4.8 %. Looks at 10, 20 and 40 give 5.0 % (normal values, 400,000 draws), the two looks of a lone flow less."""

LEAST_N = 10
"""Smallest number of Runs for a test of shares."""

QUANTITIES = {"goodput": "goodput_bps", "delay": "delay_ms", "retransmits": "retransmit_rate", "shares": "first_share"}
"""Judged quantities, and their attributes of a Run's `Figures`."""


@dataclass(frozen=True, slots=True)
class ShareTest:
    """Two one-sided t tests (Schuirmann 1987) of the first flow's share.

    Both worlds have the same paths, seed by seed; the simulator has more of them. The kernel's mean is extrapolated by
    regression from its own seeds to all seeds of the simulator (double sampling: Cochran, Sampling Techniques, 1977,
    section 12.6). Where the two worlds correlate seed by seed, this is a paired test; where they do not, it leaves out
    the simulator's own scatter.

    Attributes:
        simulated: The simulator's mean over `drawn` seeds.
        kernel: The kernel's mean over `n` seeds.
        difference: simulated - kernel, over all seeds.
        p: The larger p-value of the two tests; below `LEVEL` the shares are equivalent.
    """

    n: int
    drawn: int
    simulated: float
    kernel: float
    difference: float
    p: float
    equivalent: bool


def equivalence_p(apart: Sequence[float], limit: float) -> float:
    """Return the larger p-value of two one-sided t tests that the mean of `differences`, one a seed, is within `limit`.

    1 for a single difference, whose scatter is unknown.
    """
    n = len(apart)
    if n < 2:
        return 1.0
    return _beyond(fmean(apart), stdev(apart) / math.sqrt(n), limit, n - 1)


def _beyond(difference: float, error: float, limit: float, freedom: int) -> float:
    """Return the larger p-value of two one-sided t tests that a difference is within `limit`, by its standard error."""
    if error == 0.0:
        return 0.0 if abs(difference) < limit else 1.0
    return student("sf", (limit - abs(difference)) / error, freedom)


def share_test(simulated: Sequence[float], kernel: Sequence[float], more: Sequence[float] = ()) -> ShareTest | None:
    """Test whether shares are equal within `SHARE_MARGIN`; None: fewer than `LEAST_N` Runs.

    Args:
        simulated: The simulator's shares, by seed of the kernel.
        kernel: The kernel's shares, by seed.
        more: The simulator's shares for further seeds.
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
    """Return a value of SciPy's `function` (`sf`, `ppf` …) of Student's t.

    Raises:
        UserError: SciPy is not installed.
    """
    return float(getattr(_stats().t, function)(x, freedom))


def fisher_upper(part: float, above: int, below: int) -> float:
    """Return the quantile `part` of Fisher's F: the largest ratio of two estimates of one variance."""
    return float(_stats().f.ppf(part, above, below))


def _stats() -> Any:  # noqa: ANN401 - SciPy has no types
    try:
        from scipy import stats
    except ModuleNotFoundError as error:
        raise UserError("sim-vs-kernel needs scipy: pip install 'bentpipe[validation]'") from error
    return stats


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result for one cell.

    Attributes:
        simulated: The simulator's means, over the kernel's seeds only; `share_test` has its other seeds too.
        kernel: The kernel's means.
        outside: Quantities outside their limits.
        unsure: Quantities whose mean is inside, but not proven to be (at `LEVEL`).
        repeated: The kernel's second Runs of the first seeds.
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
        """Whether every judged quantity is within its limit."""
        return not self.outside

    @property
    def in_doubt(self) -> bool:
        """Whether more Runs would help to decide."""
        return bool(self.outside or self.unsure)

    def apart(self, quantity: str) -> list[float]:
        """Return simulated - kernel, by seed."""
        return _apart(self.simulated, self.kernel, quantity)

    def limit(self, quantity: str) -> float:
        """Return the largest allowed difference of the means of `quantity`."""
        return limit_of(self.cell.alone, quantity, self.kernel)

    def to_dict(self, explained_by: str | None) -> dict[str, Any]:
        """Return the record that ``validate --json`` prints; the documented keys come first."""
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
    """Return None for NaN and infinity, which JSON lacks."""
    return value if math.isfinite(value) else None


def limit_of(alone: bool, quantity: str, kernel: Side) -> float:
    """Return the largest allowed difference of the means of `quantity`, for one flow or two, in its own unit."""
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
    """Compare both sides.

    Args:
        cell: The cell.
        simulated: The simulator's results for the kernel's seeds.
        kernel: The kernel's results.
        why_invalid: Why the kernel's results are invalid; None: they are valid.
        more: The simulator's results for further seeds.
        repeated: The kernel's second results for the first seeds.
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
