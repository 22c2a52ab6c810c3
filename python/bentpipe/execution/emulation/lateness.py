"""Test of a Run's lateness: of its packets, and of its relay's wake-ups.

A Run is late if one event is later than a bound, or if the number of those over `BOUND_MS` refutes that they are at
most `SHARE` of all. Fewer than `ENOUGH` events cannot show a share, so the largest alone decides, with a lower bound:
each of them is a figure of its own. The count is tested against a binomial distribution. Packets of one instant are
late together, so the true confidence is a little lower than `CONFIDENCE`.
"""

from __future__ import annotations

import math
from typing import Literal

Verdict = Literal["in time", "late", "too few", "undecided"]

BOUND_MS = 1.0
"""Lateness above which a packet counts as late [ms]: ten times that of an idle machine. Chosen here."""

SHARE = 0.01
"""Largest valid share of late packets. Chosen here."""

CONFIDENCE = 0.95
"""Confidence with which a number refutes or confirms the claim."""

ENOUGH = 299
"""Packets that confirm the claim if none is late: the smallest n with (1 - SHARE)^n ≤ 1 - CONFIDENCE."""

LARGEST_MS = 100.0
"""Lateness of one packet above which a Run is invalid [ms]: half of Linux's smallest retransmission timeout (200 ms),
since a longer stall of the machine can cause one. Chosen here."""

LARGEST_OF_FEW_MS = 10.0
"""The same with fewer than `ENOUGH` packets [ms]. Chosen here: ten times the bound."""


def verdict(late: int, n: int, largest_ms: float | None) -> Verdict:
    """Return the verdict on `n` events, of which `late` were over `BOUND_MS` late and the latest `largest_ms`."""
    if largest_ms is not None and largest_ms > largest_bound_ms(n):
        return "late"
    if n < ENOUGH:
        return "too few"
    if _at_least(late, n, SHARE) < 1 - CONFIDENCE:
        return "late"
    if _at_least(n - late, n, 1 - SHARE) <= 1 - CONFIDENCE:
        return "in time"
    return "undecided"


def largest_bound_ms(n: int) -> float:
    """Return how late the latest of `n` events may be [ms]."""
    return LARGEST_MS if n >= ENOUGH else LARGEST_OF_FEW_MS


def _at_least(k: int, n: int, share: float) -> float:
    """Return the probability of `k` or more successes in `n` draws; 1 where `k` is at most the expected number."""
    if k <= n * share:
        return 1.0
    log_term = (
        math.lgamma(n + 1)
        - math.lgamma(k + 1)
        - math.lgamma(n - k + 1)
        + k * math.log(share)
        + (n - k) * math.log1p(-share)
    )
    term = total = math.exp(log_term)
    odds = share / (1 - share)
    for i in range(k, n):
        term *= (n - i) / (i + 1) * odds
        total += term
        if term < 1e-12 * total:
            break
    return total
