"""Published statements held against several tests: what is shown, what is refuted, and what cannot be told from them.

A test is a Run of each controller over one path; tests differ in their stretch of sky, in the hour, or in what was
drawn. A statement holds where an interval of paired differences (or a sign test) says so at 5 %, is refuted where it
says the opposite, and is undecided (None) otherwise: one more than half of a few tests is what a coin gives, too.
A statement of several parts holds if all do and is refuted if one is; many statements at 5 % each are many chances,
so a study with dozens of verdicts says so.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bentpipe.runs.estimates import Estimate, estimate, paired_ratio
from bentpipe.studies.study import Verdict

#: A verdict's chance of error, one-sided in a sign test; intervals are of 95 %.
LEVEL = 0.05
#: Of fewer tests a bootstrap interval is too narrow to decide by. Chosen here: of five it has 126 samples.
FEWEST = 6
#: More values than this are told by their median and range. Chosen here: a line's worth.
MANY = 12


@dataclass(frozen=True)
class Claim:
    """That a ratio of two quantities, test by test over the same path, lies from `least` to `most`.

    Attributes:
        name: Whose over whose.
        ours: Above, a value a test.
        theirs: Below, of the same tests in the same order.
        least: The ratio's lower limit.
        most: Its upper limit.
    """

    name: str
    ours: Sequence[float]
    theirs: Sequence[float]
    least: float = 1.0
    most: float = math.inf


@dataclass(frozen=True)
class Weighed:
    """What tests say of a claim: True, False or None (undecided), and by which figures."""

    holds: bool | None
    why: str


def ratio_of(claim: Claim) -> Estimate | None:
    """The paired ratio; None where somebody got nothing."""
    return paired_ratio(claim.ours, claim.theirs)


def weigh(claim: Claim) -> Weighed:
    """By the 95 % interval of the paired ratio; by a sign test where a ratio does not exist (somebody got nothing)."""
    found = ratio_of(claim)
    if found is None:
        agrees = [
            claim.least * b <= a and (a <= claim.most * b if math.isfinite(claim.most) else True)
            for a, b in zip(claim.ours, claim.theirs, strict=True)
        ]
        tested = sign_tested(agrees)
        return Weighed(tested.holds, f"{claim.name}: {tested.why}")
    return Weighed(placed(found, claim.least, claim.most), f"{claim.name} {ratio_text(found)}")


def all_hold(statement: str, claims: Sequence[Claim], source: str, basis: str, figures: str = "") -> Verdict:
    """A verdict of claims that must all hold; it is refuted if one of them is; `figures` are what they are of."""
    found = [weigh(claim) for claim in claims]
    said = "; ".join(each.why for each in found)
    return Verdict(
        statement, together([each.holds for each in found]), source, basis, f"{said}; {figures}" if figures else said
    )


def together(answers: Sequence[bool | None]) -> bool | None:
    """Of parts that must all hold: False if one is refuted, True if all hold, else None."""
    if any(answer is False for answer in answers):
        return False
    return True if answers and all(answers) else None


def above_zero(statement: str, values: Sequence[float], source: str, basis: str, figures: str) -> Verdict:
    """A verdict on the mean of differences or slopes, one a test: whether it is above zero."""
    found = estimate(list(values), floor=-math.inf)
    if found.low is None or found.high is None:
        return Verdict(statement, None, source, basis, f"{_alone(found.n)}; {figures}")
    holds = placed(found, 0.0, math.inf)
    why = f"mean {found.mean:.3g} (95 %: {found.low:.3g} to {found.high:.3g}, n = {found.n}); {figures}"
    return Verdict(statement, holds, source, basis, why)


def on_one_path(statement: str, agrees: Sequence[bool], source: str, basis: str, figures: str) -> Verdict:
    """A verdict on one static path, where nothing is drawn: n = 1, and no test of chance is possible.

    It holds where every run on it agrees, is refuted where none does, and is undecided otherwise.
    """
    many = sum(agrees)
    holds = None if not agrees or 0 < many < len(agrees) else many > 0
    why = f"one static path (n = 1): {many} of {len(agrees)} join times agree: {figures}"
    return Verdict(statement, holds, source, basis, why)


def sign_tested(agrees: Sequence[bool]) -> Weighed:
    """Whether more agree, or more disagree, than a fair coin would give at 5 %."""
    many, n = sum(agrees), len(agrees)
    yes, no = (_at_least(count, n) for count in (many, n - many))
    holds = True if yes <= LEVEL else False if no <= LEVEL else None
    return Weighed(holds if n else None, f"{many} of {n} tests agree (sign test: p = {min(yes, no, 1.0):.2g})")


def _at_least(many: int, n: int) -> float:
    """Probability that a fair coin shows at least `many` heads of `n`."""
    return sum(math.comb(n, k) for k in range(many, n + 1)) / float(2**n)


def placed(found: Estimate, least: float, most: float) -> bool | None:
    """Whether an interval lies between two limits (True), outside of them (False) or over one (None)."""
    low, high = found.low, found.high
    if low is None or high is None:  # one test, or tests that do not differ at all
        if found.n < 2:
            return None
        low = high = found.mean
        if low in (least, most):  # the same, test by test: neither more nor less
            return None
    if least <= low and high <= most:
        return True
    return False if high < least or most < low else None


def ratio_text(found: Estimate | None) -> str:
    """``× 1.23 (95 %: 1.1 to 1.4, n = 5)``."""
    if found is None:
        return "unknown"
    if found.low is None or found.high is None:
        return f"× {found.mean:.3g} ({_alone(found.n)})"
    return f"× {found.mean:.3g} (95 %: {found.low:.3g} to {found.high:.3g}, n = {found.n})"


def _alone(n: int) -> str:
    return "n = 1, no interval" if n < 2 else f"n = {n}, all alike"


def shown(values: Sequence[float | None], unit: str) -> str:
    """Values of the tests as a text: in order, or of many the median and the range."""
    known = [value for value in values if value is not None]
    if len(values) > MANY and known:
        text = f"median {statistics.median(known):.3g} ({min(known):.3g} to {max(known):.3g})"
    else:
        text = ", ".join("–" if value is None else f"{value:.3g}" for value in values)
    return text + (f" {unit}" if unit else "")
