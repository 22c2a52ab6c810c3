"""Search for a periodic schedule over periods and phases, with a bound on the false-alarm probability.

For a period and a phase the statistic is the mean change (`evidence`) at the edges. Samples are not independent: levels
last, so that a series has far fewer independent values than samples. The null hypothesis is a series of *blocks*
(`BLOCKS` of them, each of at least `LEAST_BLOCK_S` and three periods). Each block keeps its content, including equal
successive slots, but begins at a phase of its own, uniform and independent of the others. So the test is whether all
parts of the record agree on the phase.

The steps, chosen so that not every period searched costs significance:

1. *Select periods.* Each block is folded by itself; the variance of its profile over phases (epoch folding: Leahy et
   al., ApJ 266, 1983) does not change when the block is shifted. The `CANDIDATES` periods that stand out most, summed
   over blocks, are kept. This step does not depend on the relative phases of blocks, so it costs no significance.
2. *Select the phase and compute its significance.* Under the null the score of a block at a phase is a uniform draw
   from the block's own profile. The probability that the sum reaches the observed one is bounded by Chernoff (1952),
   P(sum ≥ S) ≤ min over λ > 0 of exp(-λS) · product of E[exp(λ score)], weakened for the dependence of neighbouring
   blocks (`DEPENDENCE`), times the number of phases and periods tried in this step (Bonferroni).
3. *Check that no single part decides.* A phase that lasts for several blocks, as after a route change or in a stretch
   of 90 to 180 s, makes these blocks repeat each other instead of being independent draws. So each run of `LEFT_OUT` of
   the blocks is left out in turn: the phase of that run alone must also be that of the other blocks. If the others have
   phases of their own, their sum there is one draw, bounded as above; only periods are counted, since the phase is not
   chosen from them. The p-value is the greatest of all these bounds and that of the second step.

No surrogates are drawn: the same series gives the same number, and there is no smallest p-value. Candidates come from
two families with equal shares of the error: whole seconds, as of a scheduler on a wall clock (Starlink's 15 s: Tanveer
et al., arXiv:2307.00402), and all other periods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bentpipe.analysis.evidence import Evidence

    Floats = NDArray[np.float64]

#: Least length of a block [s]: three slots of 15 s.
LEAST_BLOCK_S = 45.0
#: Least number of periods in a block: fewer give no profile.
LEAST_PERIODS = 3
#: Number of blocks of a series, if they are long enough. Chosen here: with fewer, 1 % is not reachable in a series of a
#: few minutes; with more, a null whose levels and phases last longer than a block would count as a schedule.
BLOCKS = 8
#: Least number of blocks: with fewer, significance is not reachable.
LEAST_BLOCKS = 4
#: Number of periods of each family in the second step; chosen here.
CANDIDATES = 4
#: Length of the middle part of a series in which other periods than whole seconds are searched [s]: the number of
#: distinguishable periods grows with the length, and the run time with its square.
OFF_SECOND_S = 1800.0
#: Periods on either side with which a period is compared in the first step; chosen here: wider than a peak.
NEIGHBOURS = 4
#: Factor on the strength of whole seconds: without it 15.001 s beats 15 s, because more such periods are tried.
WHOLE_SECONDS = 1.2
#: Factor on Chernoff's exponent. Levels of the null do not begin at block boundaries, so neighbouring blocks are
#: dependent. If half of the blocks repeated their neighbours, 1/2 would be right (Cauchy–Schwarz: E[XY]² ≤ E[X²] E[Y²]
#: over even and odd blocks); if none did, 1. Chosen here between them, and checked against such nulls by `bentpipe
#: validate slots`.
DEPENDENCE = 0.85
#: Share of successive blocks that is left out in the third step, rounded down to blocks. Chosen here: of 640 series
#: of Victoria's two files, cut into stretches of 90 to 180 s and shuffled, 41 raised an alarm without this step, and 6,
#: 7 and 8 with 1/4, 3/8 and 1/2 (three of them the record in its original order); so they differ only in power.
LEFT_OUT = 3 / 8
#: λ over the score's standard deviation.
_TILTS = np.geomspace(0.2, 40.0, 48)


@dataclass(frozen=True)
class Clock:
    """A candidate period with its significance.

    Attributes:
        period_s: The period [s].
        edge_s: Time of an edge, on the clock of the evidence [s].
        p_value: Bound on the false-alarm probability, with all trials counted; at most 1.
        strength: Mean change at edges above the overall mean, times the square root of the number of edges per second:
            how much of the series it explains.
        blocks: Number of blocks.
    """

    period_s: float
    edge_s: float
    p_value: float
    strength: float
    blocks: int


@dataclass(frozen=True)
class _Series:
    """Evidence, prepared for folding."""

    start_s: float
    filled: Floats
    known: NDArray[np.bool_]
    step_s: float
    width_s: float
    whole: bool

    @classmethod
    def of(cls, evidence: Evidence, most_s: float = float("inf")) -> _Series:
        """Prepare all of the evidence, or its middle part."""
        size = evidence.value.size
        skip = 0 if size * evidence.step_s <= most_s else (size - int(most_s / evidence.step_s)) // 2
        value = evidence.value[skip : size - skip]
        known = np.isfinite(value)
        start_s = evidence.start_s + skip * evidence.step_s
        return cls(start_s, np.nan_to_num(value), known, evidence.step_s, evidence.width_s, bool(known.all()))

    @property
    def span_s(self) -> float:
        return self.filled.size * self.step_s

    def periods_per_block(self, period_s: float) -> int:
        """Return the number of whole periods in a block."""
        at_least = max(LEAST_PERIODS, int(np.ceil(LEAST_BLOCK_S / period_s - 1e-9)))
        return max(at_least, int(self.span_s / BLOCKS / period_s))

    def blocks(self, period_s: float) -> int:
        """Return the number of whole blocks in the series."""
        return int(self.span_s // (self.periods_per_block(period_s) * period_s))

    def profiles(self, period_s: float) -> tuple[Floats, Floats]:
        """Return each block's mean change per phase minus the block's mean, and the number of periods in each mean.

        Both have shape (blocks, phases). A phase without evidence counts as the mean.
        """
        per_block, blocks = self.periods_per_block(period_s), self.blocks(period_s)
        phases = round(period_s / self.step_s)
        starts = np.round(np.arange(blocks * per_block) * (period_s / self.step_s)).astype(np.int64)
        at = np.minimum(starts[:, None] + np.arange(phases), self.filled.size - 1).reshape(blocks, per_block, phases)
        values = self.filled.take(at)
        if self.whole:
            count = np.full((blocks, phases), float(per_block))
            profile: Floats = values.sum(1) / per_block
            means = values.mean(2)
        else:
            known = self.known.take(at)
            count = known.sum(1).astype(np.float64)
            mean = values.sum((1, 2)) / np.maximum(count.sum(1), 1)
            profile = np.where(count > 0, values.sum(1) / np.maximum(count, 1), mean[:, None])
            filled = known.sum(2)
            means = np.where(filled > 0, values.sum(2) / np.maximum(filled, 1), mean[:, None])
        # Remove the trend over the block: it would give every period the same ramp, and so a phase.
        lever = np.arange(per_block) - (per_block - 1) / 2
        slope = means @ lever / (lever @ lever)
        profile = profile - slope[:, None] * (np.arange(phases) / phases)
        return profile - profile.mean(1, keepdims=True), count


def search(evidence: Evidence, shortest_s: float, longest_s: float, significance: float) -> Clock | None:
    """Return the best candidate between two periods [s]; None: no period has `LEAST_BLOCKS` blocks.

    Of candidates with a p-value of at most `significance` it is the one with the highest `strength`: for a period of
    15 s, 45 s and 5 s are significant too. Without such a candidate it is the one with the smallest p-value.
    """
    whole = np.arange(np.ceil(shortest_s), np.floor(longest_s) + 1)
    on_second = _family(_Series.of(evidence), whole, np.zeros(1))
    middle = _Series.of(evidence, most_s=OFF_SECOND_S)
    # Neighbouring periods differ by one width at the end of a block, or of the series.
    block_s = max(LEAST_BLOCK_S, middle.span_s / BLOCKS)
    others = np.geomspace(shortest_s, longest_s, int(block_s / evidence.width_s * np.log(longest_s / shortest_s)) + 2)
    step = float(np.log(others[1] / others[0]))
    fine = int(np.ceil(step / 2 * middle.span_s / evidence.width_s))
    off_second = _family(middle, others, np.linspace(-step / 2, step / 2, 2 * fine + 1))
    significant = [
        (clock.strength * advantage, clock)
        for clocks, advantage in ((on_second, WHOLE_SECONDS), (off_second, 1.0))
        for clock in clocks
        if clock.p_value <= significance
    ]
    if significant:
        return max(significant, key=lambda pair: pair[0])[1]
    return min([*on_second, *off_second], key=lambda clock: clock.p_value, default=None)


def _family(series: _Series, periods_s: Floats, log_offsets: Floats) -> list[Clock]:
    """Return the candidates of the periods that stand out, each also tried with small offsets."""
    tried = [
        float(period_s * factor) for period_s in _standing_out(series, periods_s) for factor in np.exp(log_offsets)
    ]
    cells = sum(period_s / series.width_s for period_s in tried)
    return [_clock(series, period_s, 2 * cells, 2 * len(tried)) for period_s in tried]


def _standing_out(series: _Series, periods_s: Floats) -> list[float]:
    """Return the periods at which blocks, each folded by itself, vary most with phase."""
    variance = float(series.filled[series.known].var()) if series.known.any() else 0.0
    if variance <= 0:
        return []
    scored = []
    for period_s in map(float, periods_s):
        if series.blocks(period_s) < LEAST_BLOCKS:
            continue
        profile, count = series.profiles(period_s)
        # Phases closer than the width are not independent.
        independent = period_s / series.width_s
        expected = variance * (1 - 1 / independent)
        ratio = float((profile**2 * count).mean()) / expected
        scored.append(((ratio - 1) * np.sqrt(len(profile) * independent / 2), period_s))
    if not scored:
        return []
    score, period = np.array(scored).T
    # Bursts of changes that last for seconds raise the variance of all long periods, so each period is compared with
    # its neighbours.
    padded = np.pad(score, NEIGHBOURS, mode="edge")
    usual = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * NEIGHBOURS + 1), axis=1)
    best = np.argsort(usual - score, kind="stable")[:CANDIDATES]
    return [float(period_s) for period_s in period[best]]


def _clock(series: _Series, period_s: float, cells: float, periods: int) -> Clock:
    """Return the best phase of a period, with its p-value for `cells` phases of all `periods` tried."""
    profile, _ = series.profiles(period_s)
    total = profile.sum(0)
    phase = int(total.argmax())
    tail = _Tail(profile)
    every = np.ones(len(profile), bool)
    log_p = min(0.0, DEPENDENCE * tail.log_of(every, phase) + float(np.log(cells)))
    if log_p < 0:
        for first in range(len(profile) - int(LEFT_OUT * len(profile)) + 1):
            others = every.copy()
            others[first : first + int(LEFT_OUT * len(profile))] = False
            theirs = int(profile[~others].sum(0).argmax())
            log_p = max(log_p, min(0.0, DEPENDENCE * tail.log_of(others, theirs) + float(np.log(periods))))
    strength = float(total[phase]) / len(profile) / np.sqrt(period_s)
    edge_s = series.start_s + phase * series.step_s
    return Clock(period_s, edge_s, float(np.exp(log_p)), strength, len(profile))


class _Tail:
    """Chernoff's bound for sums of one uniform draw from each of several rows of `centred`, whose means are 0."""

    def __init__(self, centred: Floats) -> None:
        self._centred = centred
        spread = float(np.sqrt((centred**2).mean(1).sum()))
        self._tilts = _TILTS / spread if spread > 0 else np.zeros(1)
        exponents = centred[:, :, None] * self._tilts
        peak = exponents.max(1)
        self._log_mean = peak + np.log(np.exp(exponents - peak[:, None, :]).mean(1))

    def log_of(self, rows: NDArray[np.bool_], phase: int) -> float:
        """Return the bound on ln P(sum ≥ that of `rows` at `phase`); at most 0."""
        total = float(self._centred[rows, phase].sum())
        if total <= 0:
            return 0.0
        return float(min(0.0, (self._log_mean[rows].sum(0) - self._tilts * total).min()))
