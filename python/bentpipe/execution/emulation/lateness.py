"""Whether a Run's packets were late: what is tested, with what confidence, and when there are too few to tell.

The claim about a Run is that at most `SHARE` of its packets are handed on more than `BOUND_MS` after they are due. Late
packets are counted, and the count is held against a binomial distribution: it refutes the claim, bears it out, or does
neither, and of fewer than `ENOUGH` packets no count can bear it out. Packets of one moment are late together, so the
true confidence is a little lower than `CONFIDENCE`.
"""

from __future__ import annotations

import math
from typing import Literal

Verdict = Literal["in time", "late", "too few", "undecided"]

BOUND_MS = 1.0
"""A packet that is handed on so long after it is due is late: ten times what an idle machine needs. Chosen here."""

SHARE = 0.01
"""Of all packets, most that may be late. Chosen here."""

CONFIDENCE = 0.95
"""With which a count must refute the claim, or bear it out."""

ENOUGH = 299
"""Packets of which none is late that bear the claim out: the least n with (1 - SHARE)^n ≤ 1 - CONFIDENCE."""

LARGEST_MS = 100.0
"""One packet that is so late makes a Run not valid, however many there were: half of Linux's least retransmission
timeout (200 ms), so a longer stall of the machine can start one that the path did not cause. Chosen here."""

LARGEST_OF_FEW_MS = 10.0
"""The same of fewer than `ENOUGH` packets, where one is a fair part of the result. Chosen here: ten times the bound."""


def verdict(late: int, n: int) -> Verdict:
    """Return what `late` of `n` packets say about the claim."""
    if _at_least(late, n, SHARE) < 1 - CONFIDENCE:
        return "late"
    if _at_least(n - late, n, 1 - SHARE) <= 1 - CONFIDENCE:
        return "in time"
    return "too few" if n < ENOUGH else "undecided"


def largest_bound_ms(n: int) -> float:
    """Return how late one of `n` packets may be."""
    return LARGEST_MS if n >= ENOUGH else LARGEST_OF_FEW_MS


def _at_least(k: int, n: int, share: float) -> float:
    """Probability of `k` or more in `n` independent draws; 1 where `k` is no more than expected, and so not rare."""
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
