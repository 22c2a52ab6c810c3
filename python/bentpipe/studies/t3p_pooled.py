"""T3P's statistic: all seconds of all tests of a setting pooled, over the default's.

"Across all measurements (1 s data points) for a CC scheme, we compute the mean throughput and the 95th percentile
latency, and compare them with that of the default setting" (section 5.2). `bentpipe.tuning.score` compares test by test
instead, which detects smaller differences; the study reports both. The interval is a bootstrap over tests, since
seconds within a test are not independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bentpipe.studies.agreement import FEWEST

if TYPE_CHECKING:
    from bentpipe.execution.sinks.table import SweptRun

Floats = NDArray[np.float64]

#: Resamples of the bootstrap. Chosen here: others move an end of a 95 % interval by some hundredths of its length.
_DRAWS = 400


@dataclass(frozen=True)
class Span:
    """A ratio, the ends of its 95 % interval (None: a single test), and the number of tests."""

    value: float
    low: float | None
    high: float | None
    n: int

    def meets(self, published: float, widest: float) -> bool | None:
        """Return whether a published ratio lies in the interval.

        None where the interval is wider than `widest` (high over low) or has few tests.
        """
        if self.low is None or self.high is None or self.n < FEWEST:
            return None
        if not self.low <= published <= self.high:
            return False
        return True if self.high <= widest * self.low else None

    @property
    def text(self) -> str:
        """``+12.3 % (95 %: +10.0 to +14.1, n = 25)``."""
        change = f"{100 * (self.value - 1):+.1f} %"
        if self.low is None or self.high is None:
            return f"{change} (n = {self.n}, no interval)"
        return f"{change} (95 %: {100 * (self.low - 1):+.1f} to {100 * (self.high - 1):+.1f}, n = {self.n})"


@dataclass(frozen=True)
class Pooled:
    """Mean goodput, and 95th percentile of the RTT, over the default's; None: one of both has none."""

    gain: Span | None
    rtt_p95: Span | None


def pooled(runs: Iterable[SweptRun], scheme: str, default: str) -> Pooled:
    """A scheme against the default over all seconds of the tests that both have run, measured `by_second`."""
    tests: dict[str, dict[tuple[str, int], tuple[Floats, Floats]]] = {scheme: {}, default: {}}
    for run in runs:
        if run.scheme in tests and run.record.valid:
            rtt_ms = [value for value in run.measures["rtt_ms"] if value is not None]
            goodput = np.asarray(run.measures["goodput_bps"], np.float64)
            tests[run.scheme][run.label, run.seed] = goodput, np.asarray(rtt_ms, np.float64)
    both = sorted(tests[scheme].keys() & tests[default].keys())
    ours, theirs = ([tests[name][key] for key in both] for name in (scheme, default))
    return Pooled(*(_span([a[i] for a in ours], [b[i] for b in theirs], _TAKEN[i]) for i in range(2)))


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _p95(values: Floats) -> float:
    return float(np.percentile(values, 95)) if len(values) else 0.0


_TAKEN = (_mean, _p95)


def _span(ours: list[Floats], theirs: list[Floats], taken: Callable[[Floats], float]) -> Span | None:
    whole = _ratio(ours, theirs, range(len(ours)), taken)
    if whole is None:
        return None
    if len(ours) < 2:
        return Span(whole, None, None, len(ours))
    picks = np.random.default_rng(0).integers(0, len(ours), (_DRAWS, len(ours)))
    drawn = [change for pick in picks if (change := _ratio(ours, theirs, pick, taken)) is not None]
    low, high = (float(end) for end in np.quantile(drawn, [0.025, 0.975]))
    return Span(whole, low, high, len(ours))


def _ratio(
    ours: list[Floats], theirs: list[Floats], pick: Iterable[int], taken: Callable[[Floats], float]
) -> float | None:
    tests = [int(test) for test in pick]
    if not tests:
        return None
    above, below = (taken(np.concatenate([of[test] for test in tests])) for of in (ours, theirs))
    return above / below if above > 0 and below > 0 else None
