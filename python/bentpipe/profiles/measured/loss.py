"""Loss as a process in continuous time, from probes that were lost: bad intervals, each of which loses all that passes.

A run of lost probes is a bad interval from the middle before it to the middle behind it: it is replayed as it was
measured. A probe that was lost alone says less. Where probes are dense the interval around it is as good as known; it
is replayed too. Where they are sparse it only says that a bad moment, of a length nobody knows, was there: what was
missed between probes is as likely. So it stands for as many short intervals as fit between two probes, spread over
the probes around it at all phases; a ping of the same cadence meets one of them, and a flow of many packets meets a
short interval now and then instead of one that is as long as the prober slept.

No coin is thrown: neither for a packet nor for an interval.
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

#: Length of a bad interval that took one probe of a sparse series [ns]: the 99th percentile of loss events on
#: downloads is 7.5 ms (Michel et al., "A First Look at Starlink Performance", IMC 2022, section 4).
ALONE_NS = 7_500_000
#: Up to so many of these between two probes, the series is dense; chosen here: probes every 10 ms, as ping sends them
#: (13 ms), bound a bad interval about as well as that length does.
_DENSE = 2.0

#: Golden section: steps of it modulo 1 keep neighbours apart (Weyl).
_GOLDEN = 0.618_033_988_749_894_9


@dataclass(frozen=True)
class Loss:
    """Bad intervals.

    Attributes:
        up: As the terminal's clock has them; None: nothing was lost.
        down: As the far end's clock has them.
        outages: Those that strike both directions [ns since the start], up and down; shapes (m, 2).
        facts: For the recipe: how many there are, of what lengths.
    """

    up: Points | None
    down: Points | None
    outages: tuple[NDArray[np.int64], NDArray[np.int64]]
    facts: dict[str, Any]


def loss_process(probes: Probes, up: Points) -> Loss:
    """The bad intervals of a series of probes.

    One that is longer than the way up strikes both directions: what is lost for so long is lost to both. Nobody knows
    which way a shorter one struck: they take turns (lightly loaded, Michel et al. found 0.45 % lost up and 0.40 %
    down).

    Args:
        probes: The series.
        up: Its delay up, which turns times at the terminal into those at the far end.
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
    way = np.round(np.interp(intervals / 1e9, up.t_s, up.value) * 1e9).astype(np.int64)
    both = intervals[:, 1] - intervals[:, 0] > way[:, 0]
    turn = np.cumsum(~both) % 2 == 1
    at_far_end = intervals + way
    # A long one begins at one moment for both directions: what set out before it and arrives in it is up's loss.
    later = np.stack([intervals[:, 0] + way[:, 0], np.maximum(intervals[:, 1], intervals[:, 0] + way[:, 0])], axis=1)
    unknown = probes.unknown()
    return Loss(
        stepped(intervals[both | turn], unknown),
        stepped(np.where(both[:, None], later, at_far_end)[both | ~turn], unknown),
        (intervals[both], later[both]),
        facts,
    )


def _runs(probes: Probes) -> tuple[Nanos, Nanos, Nanos]:
    """From when to when each run of lost probes stands for, and how many probes it has."""
    half = probes.spacing_ns // 2
    middle = (probes.sent_ns[:-1] + probes.sent_ns[1:]) // 2
    begin = np.concatenate([probes.sent_ns[:1], np.where(probes.gap, probes.sent_ns[1:] - half, middle)])
    end = np.concatenate([np.where(probes.gap, probes.sent_ns[:-1] + half, middle), probes.sent_ns[-1:] + half])
    lost = np.flatnonzero(probes.lost)
    # Neighbours without a silence between them are one run.
    broken = np.flatnonzero((np.diff(lost) > 1) | probes.gap[lost[:-1]])
    first = np.concatenate([[0], broken + 1])[: lost.size]
    last = np.concatenate([broken, [lost.size - 1]])[: lost.size]
    begin, end, count = begin[lost[first]], end[lost[last]], last - first + 1
    # One probe stands for a mean distance, whatever the two around it were: regular probes then meet it once.
    alone = count == 1
    mean_ns = round(probes.probed()[1][-1] / probes.sent_ns.size)
    at = probes.sent_ns[lost[first]]
    before, behind = (
        probes.sent_ns[np.maximum(lost[first] - 1, 0)],
        probes.sent_ns[np.minimum(lost[last] + 1, probes.sent_ns.size - 1)],
    )
    begin = np.where(alone & (before < at), np.maximum(at - mean_ns // 2, before + 1), begin)
    end = np.where(alone & (behind > at), np.minimum(begin + mean_ns, behind), end)
    return begin, end, count


def _spread(probes: Probes, begin: Nanos, end: Nanos) -> NDArray[np.int64]:
    """Short intervals instead of those around probes that were lost alone; shape (m, 2).

    On the clock that stands still in gaps, those of one lost probe lie in successive mean distances, each at another of
    as many phases as there are lengths in a distance: a ping at that distance, whatever its phase, meets exactly one.
    """
    if not begin.size:
        return np.zeros((0, 2), np.int64)
    real, clock = probes.probed()
    step = clock[-1] / probes.sent_ns.size
    count = max(1, round(step / ALONE_NS))
    centre = np.interp((begin + end) // 2, real, clock)
    # Phases in an order in which neighbours lie far apart: irregular probes then meet them as if by chance.
    stride = next(k for k in range(max(1, round(count * _GOLDEN)), 2 * count + 1) if math.gcd(k, count) == 1)
    turn = np.arange(count) - count // 2
    start = centre[:, None] + (turn + turn * stride % count / count - 0.5 / count)[None, :] * step
    # Beyond an end: as many whole distances back, at the same phase.
    reach = step * count
    start = np.where(start < 0, start + reach, np.where(start >= clock[-1], start - reach, start)).ravel()
    start = start[(start >= 0) & (start < clock[-1])]
    met = np.stack([start, start + step / count], axis=1)
    ends: NDArray[np.int64] = np.round(np.interp(met, clock, real)).astype(np.int64)
    ends[:, 1] = np.maximum(ends[:, 1], ends[:, 0] + 1)
    return ends
