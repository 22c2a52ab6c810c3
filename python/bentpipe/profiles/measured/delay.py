"""From RTTs at the times of probes to one-way delays at all times.

What a packet would have met between two probes, nobody measured. Two things are known: packets keep their order, and
each reply stands for the time around it. So each value is held up to a *cut* between its probe and the next. There a
rise is a jump (what comes later waits for the next grant) and a fall goes at one second per second (what waited
arrives together); a Profile whose delay fell faster would hold packets up that were never held up.

A straight line between probes, which is no better known, would take the tail away: successive RTTs are nearly
independent, and a mean of two neighbours is rarely as long as the longer one.

Where between two probes the cut lies is one number for the whole series (`cut_share`): the middle, unless another one
gives the measured quantiles back over time much better. That is so where the prober's own rhythm follows the path, as
that of ping does, which sends when a reply wakes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.profiles.build import Points
from bentpipe.profiles.measured.intervals import unknown_within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bentpipe.profiles.measured.probes import Probes

    Nanos = NDArray[np.int64]
    Mask = NDArray[np.bool_]

#: Shares of the time to the next probe at which the cut may lie, the middle first; chosen here: beyond a fifth from
#: either probe, a value would hold almost only before its probe, or after it.
CUTS = (0.5, 0.45, 0.55, 0.4, 0.6, 0.35, 0.65, 0.3, 0.7, 0.25, 0.75, 0.2, 0.8)
#: Quantiles that are to be given back, and how well; chosen here: a fifth of what the claim `measured-profile` allows.
QUANTILES, GOOD = (0.5, 0.95, 0.99), 0.01
#: Part of the middle's error that another cut must be below; chosen here.
WORTH = 0.75
#: What ping prints its RTTs to [ns]: replies that seem to overtake by less did not.
PRINTED_NS = 100_000
#: Moments at which the quantiles over time are taken, and the most probes that they are taken from; chosen here: the
#: quantiles of 20,000 moments are good to half a percent, and a fit over 200,000 probes takes 0.3 s.
_MOMENTS, _FITTED = 20_000, 200_000


@dataclass(frozen=True)
class Delays:
    """One-way delays, and how they came about.

    Attributes:
        up, down: The series; `down` is by the time at the far end, where the reply sets out.
        cut_share: Where between two probes the delay changes, 0 (at the first) to 1.
        overtaken: Replies that a later one overtook; the delay of these was cut to the overtaker's.
    """

    up: Points
    down: Points
    cut_share: float
    overtaken: int


def one_way_delays(probes: Probes, split: float, edges_ns: Nanos) -> Delays:
    """Delays up and down from the replies.

    Args:
        probes: At least one reply.
        split: Share of the RTT that is up, 0 to 1, where one-way delays are not known.
        edges_ns: When slots begin, sorted: a cut between two probes around an edge lies on it.
    """
    answered = np.flatnonzero(~probes.lost)
    sent = probes.sent_ns[answered]
    whole = np.round(probes.rtt_ms[answered] * 1e6).astype(np.int64)
    rtt = _in_order(sent, whole)
    # Time between replies that no reply stands for: nobody probed, or a probe was lost.
    gaps = np.concatenate([[0], np.cumsum(probes.gap)])
    broken = (np.diff(gaps[answered]) > 0) | (np.diff(answered) > 1)
    share = fit_cut(sent, rtt, broken)
    cut = sent[:-1] + np.round(np.diff(sent) * share).astype(np.int64)
    cut = _on_edges(sent, cut, edges_ns)
    if probes.up_ms is not None and probes.down_ms is not None:
        up = _in_order(sent, np.round(probes.up_ms[answered] * 1e6).astype(np.int64))
        down = np.round(probes.down_ms[answered] * 1e6).astype(np.int64)
    else:
        up = np.round(rtt * split).astype(np.int64)
        down = rtt - up
    far = sent + up
    # What arrived together at the far end is one point there.
    apart = np.flatnonzero(np.concatenate([[True], np.diff(far) > 0]))
    far_cut = (cut + (up[:-1] + up[1:]) // 2)[apart[1:] - 1]
    series_up = held(sent, up, cut)
    unknown = probes.unknown()
    unknown_far = unknown + np.round(np.interp(unknown / 1e9, series_up.t_s, series_up.value) * 1e9).astype(np.int64)
    return Delays(
        unknown_within(series_up, unknown),
        unknown_within(held(far[apart], _in_order(far[apart], down[apart]), far_cut), unknown_far),
        share,
        int((whole - rtt > PRINTED_NS).sum()),
    )


def held(at: Nanos, delay: Nanos, cut: Nanos) -> Points:
    """A series from delays at the times of packets: held, with a jump or a fall in order at each cut.

    Args:
        at: When packets set out [ns], increasing; shape (n,).
        delay: Theirs [ns]; none arrives before the one before it.
        cut: Between each two, when the delay changes [ns]; shape (n - 1,).
    """
    before, after = delay[:-1], delay[1:]
    first, last = at[:-1], at[1:]
    # A fall is centred on the cut, a jump (of 1 ns) is at it; neither goes beyond the two packets.
    width = np.maximum(before - after, 1)
    begin = np.clip(cut - width // 2, first, np.maximum(last - width, first))
    end = np.minimum(begin + width, last)
    t = np.concatenate([[0], np.stack([begin, end], axis=1).ravel()])
    v = np.concatenate([delay[:1], np.stack([before, after], axis=1).ravel()])
    # Times that coincide are one point: the later one, which says what holds from there on.
    keep = np.concatenate([np.diff(t) > 0, [True]])
    return Points.of(t[keep] / 1e9, v[keep] / 1e9)


def fit_cut(sent: Nanos, rtt: Nanos, broken: Mask) -> float:
    """The share nearest to the middle at which quantiles over time are those over replies, to `GOOD`; or the best.

    The middle, where the best is not much better than it (`WORTH`): a prober that waits for each reply before it sends
    again probes long RTTs less often than they are, and no cut makes up for that.

    Args:
        sent: When answered probes were sent [ns]; shape (n,).
        rtt: Their RTTs [ns]; shape (n,).
        broken: Between which two there is a silence or a lost probe: time that no reply stands for; shape (n - 1,).
    """
    sent, rtt, broken = sent[:_FITTED], rtt[:_FITTED], broken[: _FITTED - 1]
    stands = np.concatenate([[0], np.cumsum(np.where(broken, 0, np.diff(sent)))])
    if stands[-1] == 0:
        return CUTS[0]
    wanted = np.quantile(rtt, QUANTILES)
    moments = np.interp((np.arange(_MOMENTS) + 0.5) / _MOMENTS * stands[-1], stands, sent)
    middle, best, least = np.inf, CUTS[0], np.inf
    for share in CUTS:
        cut = sent[:-1] + np.round(np.diff(sent) * share).astype(np.int64)
        series = held(sent, rtt, cut)
        found = np.quantile(np.interp(moments / 1e9, series.t_s, series.value) * 1e9, QUANTILES)
        error = float(np.abs(found / wanted - 1).max())
        middle = min(middle, error) if share == CUTS[0] else middle
        if error < least:
            best, least = share, error
        if error <= GOOD:
            break
    return best if least <= middle * WORTH else CUTS[0]


def _in_order(sent: Nanos, delay: Nanos) -> Nanos:
    """Delays with which none arrives after one that was sent later: those that were overtaken are cut."""
    arrive = np.minimum.accumulate((sent + delay)[::-1])[::-1]
    return np.maximum(arrive - sent, 0)


def _on_edges(sent: Nanos, cut: Nanos, edges: Nanos) -> Nanos:
    """Cuts of probes around an edge, moved onto it."""
    after = np.searchsorted(sent, edges)
    inside = (after > 0) & (after < sent.size)
    moved = cut.copy()
    moved[after[inside] - 1] = edges[inside]
    return moved
