"""Verdicts on published statements from several tests: holds, refuted or undecided.

A test is a Run of each controller over one path. Tests differ in the satellites overhead, the hour or the seed. A
statement holds where an interval of paired differences (or a sign test) confirms it at 5 %. It is refuted where the
test confirms the opposite, and undecided (None) otherwise: a narrow majority of a few tests may be chance. A statement
of several parts holds if all parts hold and is refuted if one is. Many statements at 5 % each are many chances of
error, so a study with dozens of verdicts says so.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bentpipe.runs.estimates import Estimate, estimate, paired_ratio
from bentpipe.studies.study import Verdict

#: A verdict's chance of error, one-sided in a sign test; intervals cover 95 %.
LEVEL = 0.05
#: With fewer tests a bootstrap interval is too narrow to decide. Chosen here: five tests give only 126 samples.
FEWEST = 6
#: More values than this are printed as median and range. Chosen here: one line.
MANY = 12


@dataclass(frozen=True)
class Claim:
    """The claim that the ratio of two quantities, paired by test, lies between `least` and `most`.

    Attributes:
        name: Text of the ratio: whose value over whose.
        ours: Numerator, one value per test.
        theirs: Denominator, of the same tests in the same order.
        least: The ratio's lower limit.
        most: Its upper limit.
    """

    name: str
    ours: Sequence[float]
    theirs: Sequence[float]
    least: float = 1.0
    most: float = math.inf


@dataclass(frozen=True)
class Assessment:
    """The verdict of the tests on a claim (None: undecided), with the values that decide it."""

    holds: bool | None
    why: str


def ratio_of(claim: Claim) -> Estimate | None:
    """Return the paired ratio; None where one side is zero."""
    return paired_ratio(claim.ours, claim.theirs)


def assess(claim: Claim) -> Assessment:
    """Assess a claim by the 95 % interval of its paired ratio, or by a sign test where one side is zero."""
    interval = ratio_of(claim)
    if interval is None:
        agrees = [
            claim.least * b <= a and (a <= claim.most * b if math.isfinite(claim.most) else True)
            for a, b in zip(claim.ours, claim.theirs, strict=True)
        ]
        tested = sign_tested(agrees)
        return Assessment(tested.holds, f"{claim.name}: {tested.why}")
    return Assessment(within_limits(interval, claim.least, claim.most), f"{claim.name} {ratio_text(interval)}")


def all_hold(statement: str, claims: Sequence[Claim], source: str, basis: str, figures: str = "") -> Verdict:
    """Return a verdict that holds if all claims hold and is refuted if one is; `figures` are the values compared."""
    assessed = [assess(claim) for claim in claims]
    reasons = "; ".join(each.why for each in assessed)
    return Verdict(
        statement,
        all_of([each.holds for each in assessed]),
        source,
        basis,
        f"{reasons}; {figures}" if figures else reasons,
    )


def all_of(answers: Sequence[bool | None]) -> bool | None:
    """Combine parts that must all hold: False if one is refuted, True if all hold, else None."""
    if any(answer is False for answer in answers):
        return False
    return True if answers and all(answers) else None


def above_zero(statement: str, values: Sequence[float], source: str, basis: str, figures: str) -> Verdict:
    """Return a verdict on whether the mean of differences or slopes, one per test, is above zero."""
    interval = estimate(list(values), floor=-math.inf)
    if interval.low is None or interval.high is None:
        return Verdict(statement, None, source, basis, f"{_alone(interval.n)}; {figures}")
    holds = within_limits(interval, 0.0, math.inf)
    why = f"mean {interval.mean:.3g} (95 %: {interval.low:.3g} to {interval.high:.3g}, n = {interval.n}); {figures}"
    return Verdict(statement, holds, source, basis, why)


def on_one_path(statement: str, agrees: Sequence[bool], source: str, basis: str, figures: str) -> Verdict:
    """Return a verdict on one static path without random draws: n = 1, so no significance test is possible.

    It holds where every Run agrees, is refuted where none does, and is undecided otherwise.
    """
    agreeing = sum(agrees)
    holds = None if not agrees or 0 < agreeing < len(agrees) else agreeing > 0
    why = f"one static path (n = 1): {agreeing} of {len(agrees)} join times agree: {figures}"
    return Verdict(statement, holds, source, basis, why)


def sign_tested(agrees: Sequence[bool]) -> Assessment:
    """Test at 5 % whether more tests agree, or disagree, than a fair coin would give."""
    agreeing, n = sum(agrees), len(agrees)
    yes, no = (_at_least(count, n) for count in (agreeing, n - agreeing))
    holds = True if yes <= LEVEL else False if no <= LEVEL else None
    return Assessment(holds if n else None, f"{agreeing} of {n} tests agree (sign test: p = {min(yes, no, 1.0):.2g})")


def _at_least(agreeing: int, n: int) -> float:
    """Return the probability of at least `agreeing` heads in `n` tosses of a fair coin."""
    return sum(math.comb(n, k) for k in range(agreeing, n + 1)) / float(2**n)


def within_limits(interval: Estimate, least: float, most: float) -> bool | None:
    """Return whether an interval lies between two limits (True), outside (False) or across one (None)."""
    low, high = interval.low, interval.high
    if low is None or high is None:  # one test, or identical tests
        if interval.n < 2:
            return None
        low = high = interval.mean
        if low in (least, most):  # exactly at a limit: undecided
            return None
    if least <= low and high <= most:
        return True
    return False if high < least or most < low else None


def ratio_text(interval: Estimate | None) -> str:
    """Format a ratio: ``× 1.23 (95 %: 1.1 to 1.4, n = 5)``."""
    if interval is None:
        return "unknown"
    if interval.low is None or interval.high is None:
        return f"× {interval.mean:.3g} ({_alone(interval.n)})"
    return f"× {interval.mean:.3g} (95 %: {interval.low:.3g} to {interval.high:.3g}, n = {interval.n})"


def _alone(n: int) -> str:
    return "n = 1, no interval" if n < 2 else f"n = {n}, all alike"


def values_text(values: Sequence[float | None], unit: str) -> str:
    """Format the tests' values in order; many values as median and range."""
    known = [value for value in values if value is not None]
    if len(values) > MANY and known:
        text = f"median {statistics.median(known):.3g} ({min(known):.3g} to {max(known):.3g})"
    else:
        text = ", ".join("–" if value is None else f"{value:.3g}" for value in values)
    return text + (f" {unit}" if unit else "")
