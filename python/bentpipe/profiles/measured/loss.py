"""Estimate loss in continuous time from lost probes: bad intervals, in each of which all packets are lost.

A run of lost probes is a bad interval, from the middle before the run to the middle after it. It is replayed as
measured. A single lost probe is less certain. Where probes are dense, the interval around it is well known and is
replayed too. Where probes are sparse, it only shows a bad time of unknown length, and more of them between the probes
are as likely. So a single lost probe stands for as many short intervals as fit between two probes, spread over the
probes around it at all phases. A ping of the same interval meets one of them. A flow of many packets meets a short
interval now and then, instead of one that is as long as the probe interval.

The intervals are deterministic: nothing is random, neither for a packet nor for an interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.profiles.build import Points
from bentpipe.profiles.measured.intervals import stepped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bentpipe.profiles.measured.probes import Probes

    Nanos = NDArray[np.int64]

#: Length of a bad interval for a single lost probe of a sparse series [ns]: the 99th percentile of loss events on
#: downloads is 7.5 ms (Michel et al., "A First Look at Starlink Performance", IMC 2022, section 4).
ALONE_NS = 7_500_000
#: A series is dense if probes are at most this many of those lengths apart; chosen here: probes every 10 ms, as ping
#: sends them (13 ms), bound a bad interval about as well as that length.
_DENSE = 2.0

#: Golden section: steps of it modulo 1 keep neighbours apart (Weyl).
_GOLDEN = 0.618_033_988_749_894_9


@dataclass(frozen=True)
class Loss:
    """Bad intervals of a series of probes.

    Attributes:
        up: Loss series at the terminal; None: no loss.
        down: Loss series at the far end; None: no loss.
        outages: Intervals of both directions [ns since the start], up and down; shapes (m, 2).
        facts: Entry of the recipe: numbers and lengths of the intervals.
    """

    up: Points | None
    down: Points | None
    outages: tuple[NDArray[np.int64], NDArray[np.int64]]
    facts: dict[str, Any]


def loss_process(probes: Probes, up: Points) -> Loss:
    """Estimate the bad intervals of a series of probes.

    An interval longer than the delay up affects both directions. The direction of a shorter one is unknown, so they
    alternate (on lightly loaded links Michel et al. found 0.45 % loss up and 0.40 % down).

    Args:
        probes: The series.
        up: Delay up [s], which converts times at the terminal to times at the far end.
    """
    begin, end, count = _runs(probes)
    alone = (count == 1) & (probes.spacing_ns > _DENSE * ALONE_NS)
    short = _spread(probes, begin[alone], end[alone])
    intervals = np.concatenate([np.stack([begin[~alone], end[~alone]], axis=1), short])
    intervals = intervals[np.argsort(intervals[:, 0], kind="stable")]
    facts = {
        "lost": int(probes.lost.sum()),
        "runs": int(count.size),
        "mean_run": float(count.mean()) if count.size else None,
        "longest_run_s": float((end - begin).max() / 1e9) if count.size else None,
        "alone_as_rate": int(alone.sum()),
        "intervals": len(intervals),
        "alone_s": ALONE_NS / 1e9,
    }
    if not len(intervals):
        return Loss(None, None, (intervals, intervals), facts)
    delay_ns = np.round(np.interp(intervals / 1e9, up.t_s, up.value) * 1e9).astype(np.int64)
    both = intervals[:, 1] - intervals[:, 0] > delay_ns[:, 0]
    turn = np.cumsum(~both) % 2 == 1
    at_far_end = intervals + delay_ns
    # A long interval begins at one time for both directions: packets sent before it that arrive in it are lost up.
    later = np.stack(
        [intervals[:, 0] + delay_ns[:, 0], np.maximum(intervals[:, 1], intervals[:, 0] + delay_ns[:, 0])], axis=1
    )
    unknown = probes.gaps_ns()
    return Loss(
        stepped(intervals[both | turn], unknown),
        stepped(np.where(both[:, None], later, at_far_end)[both | ~turn], unknown),
        (intervals[both], later[both]),
        facts,
    )


def _runs(probes: Probes) -> tuple[Nanos, Nanos, Nanos]:
    """Return begin [ns], end [ns] and number of probes of each run of lost probes."""
    half = probes.spacing_ns // 2
    middle = (probes.sent_ns[:-1] + probes.sent_ns[1:]) // 2
    begin = np.concatenate([probes.sent_ns[:1], np.where(probes.gap, probes.sent_ns[1:] - half, middle)])
    end = np.concatenate([np.where(probes.gap, probes.sent_ns[:-1] + half, middle), probes.sent_ns[-1:] + half])
    lost = np.flatnonzero(probes.lost)
    # Adjacent lost probes without a gap between them are one run.
    broken = np.flatnonzero((np.diff(lost) > 1) | probes.gap[lost[:-1]])
    first = np.concatenate([[0], broken + 1])[: lost.size]
    last = np.concatenate([broken, [lost.size - 1]])[: lost.size]
    begin, end, count = begin[lost[first]], end[lost[last]], last - first + 1
    # A single probe covers one mean interval, so that regular probes meet it once.
    alone = count == 1
    mean_ns = round(probes.probing_clock()[1][-1] / probes.sent_ns.size)
    at = probes.sent_ns[lost[first]]
    before, behind = (
        probes.sent_ns[np.maximum(lost[first] - 1, 0)],
        probes.sent_ns[np.minimum(lost[last] + 1, probes.sent_ns.size - 1)],
    )
    begin = np.where(alone & (before < at), np.maximum(at - mean_ns // 2, before + 1), begin)
    end = np.where(alone & (behind > at), np.minimum(begin + mean_ns, behind), end)
    return begin, end, count


def _spread(probes: Probes, begin: Nanos, end: Nanos) -> NDArray[np.int64]:
    """Return short intervals that replace those around single lost probes; shape (m, 2).

    On the clock that stops in gaps, those of one lost probe lie in successive mean probe intervals, each at another
    phase. There are as many phases as lengths in a probe interval, so a ping at that interval meets exactly one.
    """
    if not begin.size:
        return np.zeros((0, 2), np.int64)
    real, clock = probes.probing_clock()
    step = clock[-1] / probes.sent_ns.size
    count = max(1, round(step / ALONE_NS))
    centre = np.interp((begin + end) // 2, real, clock)
    # The order of phases keeps neighbours far apart, so that irregular probes meet them as if at random.
    stride = next(k for k in range(max(1, round(count * _GOLDEN)), 2 * count + 1) if math.gcd(k, count) == 1)
    turn = np.arange(count) - count // 2
    start = centre[:, None] + (turn + turn * stride % count / count - 0.5 / count)[None, :] * step
    # Beyond an end: moved by whole probe intervals, at the same phase.
    reach = step * count
    start = np.where(start < 0, start + reach, np.where(start >= clock[-1], start - reach, start)).ravel()
    start = start[(start >= 0) & (start < clock[-1])]
    met = np.stack([start, start + step / count], axis=1)
    ends: NDArray[np.int64] = np.round(np.interp(met, clock, real)).astype(np.int64)
    ends[:, 1] = np.maximum(ends[:, 1], ends[:, 0] + 1)
    return ends
