"""Estimate one-way delays at all times from the RTTs of probes.

The delay between two probes is not measured. Two facts are known: packets keep their order, and each reply represents
the time around it. So each value holds up to a *cut* between its probe and the next. At the cut a rise is a jump (later
packets wait for the next grant), and a fall has a slope of one second per second (waiting packets arrive together). A
faster fall would delay packets in the Profile that were not delayed on the path.

Linear interpolation between probes would remove the tail: successive RTTs are nearly independent, and the mean of two
neighbours is rarely as long as the longer one.

The position of the cut between two probes is one number for the whole series (`cut_share`): the middle, unless another
value reproduces the measured quantiles over time much better. That happens where the send times depend on the path, as
those of ping do, which sends when a reply wakes it.
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
#: Quantiles to reproduce, and the accepted relative error; chosen here: a fifth of that of the claim
#: `measured-profile`.
QUANTILES, GOOD = (0.5, 0.95, 0.99), 0.01
#: Another cut must have less than this share of the middle's error; chosen here.
WORTH = 0.75
#: Resolution of the RTTs that ping prints [ns]: reordering by less is rounding.
PRINTED_NS = 100_000
#: Number of times at which the quantiles over time are taken, and largest number of probes used; chosen here: the
#: quantiles of 20,000 moments are good to half a percent, and a fit over 200,000 probes takes 0.3 s.
_MOMENTS, _FITTED = 20_000, 200_000


@dataclass(frozen=True)
class Delays:
    """One-way delays of a series of probes.

    Attributes:
        up, down: The series; the times of `down` are when the reply leaves the far end.
        cut_share: Position of the cut between two probes, 0 (at the first) to 1.
        overtaken: Number of replies that a later one overtook; their delay was reduced to keep the order.
    """

    up: Points
    down: Points
    cut_share: float
    overtaken: int


def one_way_delays(probes: Probes, split: float, edges_ns: Nanos) -> Delays:
    """Estimate the delays up and down from the replies.

    Args:
        probes: At least one reply.
        split: Share of the RTT that is up, 0 to 1, where one-way delays are unknown.
        edges_ns: Slot edges [ns since the start], sorted; a cut between two probes around an edge lies on it.
    """
    answered = np.flatnonzero(~probes.lost)
    sent = probes.sent_ns[answered]
    whole = np.round(probes.rtt_ms[answered] * 1e6).astype(np.int64)
    rtt = _in_order(sent, whole)
    # Times between replies that no reply represents: a gap, or a lost probe.
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
    # Packets that arrive together at the far end are one point there.
    apart = np.flatnonzero(np.concatenate([[True], np.diff(far) > 0]))
    far_cut = (cut + (up[:-1] + up[1:]) // 2)[apart[1:] - 1]
    series_up = hold_to_cuts(sent, up, cut)
    unknown = probes.gaps_ns()
    unknown_far = unknown + np.round(np.interp(unknown / 1e9, series_up.t_s, series_up.value) * 1e9).astype(np.int64)
    return Delays(
        unknown_within(series_up, unknown),
        unknown_within(hold_to_cuts(far[apart], _in_order(far[apart], down[apart]), far_cut), unknown_far),
        share,
        int((whole - rtt > PRINTED_NS).sum()),
    )


def hold_to_cuts(at: Nanos, delay: Nanos, cut: Nanos) -> Points:
    """Build a series from delays of packets: each holds up to the cut, with a jump or an order-preserving fall there.

    Args:
        at: Send times [ns], increasing; shape (n,).
        delay: Delays [ns], with which packets keep their order; shape (n,).
        cut: Time between each two packets at which the delay changes [ns]; shape (n - 1,).
    """
    before, after = delay[:-1], delay[1:]
    first, last = at[:-1], at[1:]
    # A fall is centred on the cut, a jump (of 1 ns) is at it; neither goes beyond the two packets.
    width = np.maximum(before - after, 1)
    begin = np.clip(cut - width // 2, first, np.maximum(last - width, first))
    end = np.minimum(begin + width, last)
    t = np.concatenate([[0], np.stack([begin, end], axis=1).ravel()])
    v = np.concatenate([delay[:1], np.stack([before, after], axis=1).ravel()])
    # Of coinciding times only the last point counts.
    keep = np.concatenate([np.diff(t) > 0, [True]])
    return Points.of(t[keep] / 1e9, v[keep] / 1e9)


def fit_cut(sent: Nanos, rtt: Nanos, broken: Mask) -> float:
    """Return the cut nearest to the middle with which quantiles over time match those over replies within `GOOD`.

    Otherwise it is the best cut, or the middle if the best is not much better (`WORTH`). A prober that waits for each
    reply before the next probe undersamples long RTTs, and no cut corrects that.

    Args:
        sent: Send times of answered probes [ns]; shape (n,).
        rtt: Their RTTs [ns]; shape (n,).
        broken: Whether a gap or a lost probe lies between two of them; shape (n - 1,).
    """
    sent, rtt, broken = sent[:_FITTED], rtt[:_FITTED], broken[: _FITTED - 1]
    covered = np.concatenate([[0], np.cumsum(np.where(broken, 0, np.diff(sent)))])
    if covered[-1] == 0:
        return CUTS[0]
    target = np.quantile(rtt, QUANTILES)
    moments = np.interp((np.arange(_MOMENTS) + 0.5) / _MOMENTS * covered[-1], covered, sent)
    middle, best, least = np.inf, CUTS[0], np.inf
    for share in CUTS:
        cut = sent[:-1] + np.round(np.diff(sent) * share).astype(np.int64)
        series = hold_to_cuts(sent, rtt, cut)
        quantiles = np.quantile(np.interp(moments / 1e9, series.t_s, series.value) * 1e9, QUANTILES)
        error = float(np.abs(quantiles / target - 1).max())
        middle = min(middle, error) if share == CUTS[0] else middle
        if error < least:
            best, least = share, error
        if error <= GOOD:
            break
    return best if least <= middle * WORTH else CUTS[0]


def _in_order(sent: Nanos, delay: Nanos) -> Nanos:
    """Return the delays, reduced where needed so that no packet arrives after a later one."""
    arrive = np.minimum.accumulate((sent + delay)[::-1])[::-1]
    return np.maximum(arrive - sent, 0)


def _on_edges(sent: Nanos, cut: Nanos, edges: Nanos) -> Nanos:
    """Move the cut between the probes around each edge onto the edge."""
    after = np.searchsorted(sent, edges)
    inside = (after > 0) & (after < sent.size)
    moved = cut.copy()
    moved[after[inside] - 1] = edges[inside]
    return moved
