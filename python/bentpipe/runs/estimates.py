"""Means with confidence intervals, ratios of paired runs, and Jain's index."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist, fmean, median, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.95

T_975: tuple[float, ...] = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)
"""97.5 % quantiles of Student's t for 1 … 10 degrees of freedom (NIST/SEMATECH e-Handbook of Statistical Methods,
table 1.3.6.7.2); `tests/test_runs_estimates.py` compares all quantiles with SciPy's."""


@dataclass(frozen=True)
class Estimate:
    """Mean and median over `n` runs, the ends of the mean's 95 % confidence interval, smallest and largest value.

    The ends are None for a single run, and if all runs are equal: without a spread there is no estimate of it.
    """

    n: int
    mean: float
    median: float
    low: float | None
    high: float | None
    smallest: float
    largest: float


def t_quantile(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's t.

    Few degrees of freedom have a table. Above it, the Cornish–Fisher expansion around the normal quantile (Abramowitz
    and Stegun, 26.7.5) is accurate to 1e-4.
    """
    if degrees <= len(T_975):
        return T_975[degrees - 1]
    x = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    g1 = (x**3 + x) / 4
    g2 = (5 * x**5 + 16 * x**3 + 3 * x) / 96
    g3 = (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384
    g4 = (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160
    return x + g1 / degrees + g2 / degrees**2 + g3 / degrees**3 + g4 / degrees**4


def estimate(values: Sequence[float], floor: float = 0.0, ceiling: float = math.inf) -> Estimate:
    """Return the mean over runs with Student's t interval.

    `floor` and `ceiling` are the smallest and largest possible value (goodput, delays and counts are never negative, a
    share is at most 1). The interval is truncated there.
    """
    if not values:
        raise ValueError("an estimate needs at least one value")
    mean, middle, n = fmean(values), median(values), len(values)
    if min(values) == max(values):
        return Estimate(n, mean, middle, None, None, min(values), max(values))
    half = t_quantile(n - 1) * stdev(values) / math.sqrt(n)
    return Estimate(n, mean, middle, max(mean - half, floor), min(mean + half, ceiling), min(values), max(values))


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Estimate | None:
    """Return the geometric mean of the ratios `ours` / `theirs`, run by run, with its interval.

    Pair i must be two runs over the same path (same Profile, same seed), so that the path's effect cancels. None if a
    ratio does not exist (a run without goodput).
    """
    if not ours or len(ours) != len(theirs) or min(*ours, *theirs) <= 0:
        return None
    logs = estimate([math.log(a / b) for a, b in zip(ours, theirs, strict=True)], floor=-math.inf)
    low, high = (None if end is None else math.exp(end) for end in (logs.low, logs.high))
    ends = math.exp(logs.smallest), math.exp(logs.largest)
    return Estimate(logs.n, math.exp(logs.mean), math.exp(logs.median), low, high, *ends)


def jain_index(shares: Sequence[float]) -> float | None:
    """Return Jain's fairness index: 1 for equal shares, 1/n if one flow has all. None if all shares are 0.

    Source: Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and Discrimination", DEC-TR-301, 1984.
    """
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares > 0 else None


def ends(name: str, value: Estimate | None) -> dict[str, float | None]:
    """Return an estimate as columns of a table: its mean under `name`, and the ends of its interval.

    Example:
        >>> list(ends("rtt_ms", None))
        ['rtt_ms', 'rtt_low_ms', 'rtt_high_ms']
    """
    low, high = interval_names(name)
    if value is None:
        return {name: None, low: None, high: None}
    return {name: value.mean, low: value.low, high: value.high}


def interval_names(name: str) -> tuple[str, str]:
    """Return the names of an interval's ends: the unit stays last."""
    stem, _, unit = name.rpartition("_") if name.endswith(("_bps", "_ms", "_s")) else (name, "", "")
    suffix = f"_{unit}" if unit else ""
    return f"{stem}_low{suffix}", f"{stem}_high{suffix}"
