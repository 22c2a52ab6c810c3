"""Exact times of slot edges, and delay, loss and silence at them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.analysis.evidence import log_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Half-width of the data around an edge that locate it [s]; chosen here, the same as the longer window of `evidence`.
REACH_S = 2.0
#: Steps of the search [s].
STEP_S = 0.02
#: Most edges used, evenly spaced: enough to locate an edge within a step.
MOST_EDGES = 1000
#: Bootstrap resamplings of edges for the error.
RESAMPLINGS = 200
#: Time after an edge in which the extra delay of a handover is measured [s]: it is over within the second (Huston 2024,
#: figure 4).
AFTER_S = 1.0
#: Largest distance of a loss at a handover from an edge [s]; chosen here: an interruption of 0.1 s, and edges known to
#: 0.3 s.
NEAR_S = 0.5

#: Least ratio of the silence at edges to that elsewhere if replies stop at edges; chosen here: Victoria's ratios are
#: 2.4 and 3.0, and 1.0 at wrong edges.
STANDS_OUT = 1.5


@dataclass(frozen=True)
class Place:
    """Correction to the edges [s] and its standard error [s]."""

    shift_s: float
    error_s: float


def place(t_s: Floats, rtt_ms: Floats, edges_s: Floats, width_s: float) -> Place:
    """Locate the level change near roughly known edges.

    For each shift, the share of the variance of ln(RTT) around an edge that a level change there explains, summed over
    edges: a least-squares change point common to all edges. Its error is from bootstrap resampling of edges.

    Args:
        t_s: Send times of the answered probes [s], increasing.
        rtt_ms: RTTs [ms].
        edges_s: Edges, each known to `width_s` [s].
        width_s: Largest shift [s].
    """
    edges_s = _some(edges_s)
    reach = max(REACH_S, 2 * width_s)
    bounds = zip(*np.searchsorted(t_s, [edges_s - reach, edges_s + reach]), strict=True)
    around = np.unique(np.concatenate([np.arange(0), *(np.arange(i, j) for i, j in bounds)]))
    if not around.size:
        return Place(0.0, width_s)
    t_s, level = t_s[around], log_of(rtt_ms[around])
    level = np.clip(level, *np.quantile(level, (0.01, 0.99)))
    level -= level.mean()
    sums = np.concatenate([[0.0], np.cumsum(level)])
    squares = np.concatenate([[0.0], np.cumsum(level**2)])
    shifts = np.arange(-round(width_s / STEP_S), round(width_s / STEP_S) + 1) * STEP_S
    first, last = np.searchsorted(t_s, edges_s - reach), np.searchsorted(t_s, edges_s + reach)
    split = np.searchsorted(t_s, edges_s[:, None] + shifts)
    left, right = split - first[:, None], last[:, None] - split
    count = (last - first)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (sums[last] - sums[first])[:, None] / count
        total = (squares[last] - squares[first])[:, None] - count * mean**2
        difference = (sums[last][:, None] - sums[split]) / right - (sums[split] - sums[first][:, None]) / left
        explained = left * right / count * difference**2 / total
    explained = np.nan_to_num(explained[np.isfinite(explained).any(1)])
    if not explained.size:
        return Place(0.0, width_s)
    best = _middle_of_best(explained.sum(0))
    draws = np.random.default_rng(0).multinomial(
        len(explained), np.full(len(explained), 1 / len(explained)), RESAMPLINGS
    )
    places = shifts[(draws @ explained).argmax(1)]
    return Place(float(shifts[best]), float(np.sqrt(places.std() ** 2 + STEP_S**2 / 12)))


def _silence(replies_s: Floats, edge_s: float) -> tuple[float, float]:
    """Return start and length of the longest time without a reply within `NEAR_S` of an edge [s]."""
    first, after = np.searchsorted(replies_s, [edge_s - NEAR_S, edge_s + NEAR_S])
    inside = np.concatenate([[edge_s - NEAR_S], replies_s[first:after], [edge_s + NEAR_S]])
    steps = np.diff(inside)
    longest = int(steps.argmax())
    return float(inside[longest]), float(steps[longest])


def silences_s(replies_s: Floats, edges_s: Floats) -> Floats:
    """Return the longest time without a reply within `NEAR_S` of each edge [s], shape of `edges_s`."""
    return np.array([_silence(replies_s, edge)[1] for edge in edges_s])


def silent_from(replies_s: Floats, edges_s: Floats, period_s: float) -> float | None:
    """Return when replies stop relative to the edge [s], as the median over edges; None: no clear silence.

    With reply times, or if the probes of an interruption are lost, a handover is a silence that is `STANDS_OUT` times
    longer than that in the middle of slots; its start is the edge.
    """
    edges_s = _some(edges_s)
    if not replies_s.size or not edges_s.size:
        return None
    at = np.array([_silence(replies_s, edge) for edge in edges_s])
    middle = np.array([_silence(replies_s, edge + period_s / 2) for edge in edges_s])
    if np.median(at[:, 1]) < STANDS_OUT * np.median(middle[:, 1]):
        return None
    return float(np.median(at[:, 0] - edges_s))


def _some(edges_s: Floats) -> Floats:
    """Return at most `MOST_EDGES` of the edges, evenly spaced."""
    if edges_s.size <= MOST_EDGES:
        return edges_s
    chosen: Floats = edges_s[np.linspace(0, edges_s.size - 1, MOST_EDGES).astype(int)]
    return chosen


def _middle_of_best(gain: Floats) -> int:
    """Return the middle of the plateau at the maximum: between two sparse pings all shifts are equally good."""
    best = int(gain.argmax())
    last = best
    while last + 1 < gain.size and np.isclose(gain[last + 1], gain[best], rtol=1e-9):
        last += 1
    return (best + last) // 2


@dataclass(frozen=True)
class AtEdges:
    """Delay, loss and silence at edges, with the middle of slots as a control (Huston 2024, figures 3 and 4).

    Attributes:
        excess_ms: Median over slots of the largest RTT in the first `AFTER_S`, minus the slot's median.
        excess_p95_ms: The 95th percentile over slots of the same.
        excess_mid_ms: The same median for windows that begin in the middle of the slot.
        loss: Share of probes lost within `NEAR_S` of an edge; None without probes there.
        loss_elsewhere: Share of all other probes lost.
        silence_ms: Median over edges of the longest time without a reply's probe within `NEAR_S`.
        silence_mid_ms: The same at the middles of slots.
    """

    excess_ms: float | None
    excess_p95_ms: float | None
    excess_mid_ms: float | None
    loss: float | None
    loss_elsewhere: float | None
    silence_ms: float | None
    silence_mid_ms: float | None


def edges_near(t_s: Floats, edge_s: float, period_s: float) -> Floats:
    """Return the edges of slots with data, so that a gap of years adds no edges.

    Args:
        t_s: Times, not decreasing, at least one [s]; shape (n,).
        edge_s: Any edge [s].
        period_s: Length of a slot [s].

    Returns:
        Increasing [s].
    """
    slots = np.unique(np.floor((t_s - edge_s) / period_s))
    return edge_s + np.union1d(slots, slots + 1) * period_s


def at_edges(t_s: Floats, rtt_ms: Floats, edge_s: float, period_s: float) -> AtEdges:
    """Measure delay, loss and silence at edges and at the middles of slots.

    Args:
        t_s: Times of all probes [s], not decreasing.
        rtt_ms: Their RTTs [ms]; NaN: lost.
        edge_s: Any edge [s].
        period_s: Length of a slot [s].
    """
    phase = (t_s - edge_s) % period_s
    lost = np.isnan(rtt_ms)
    near = np.minimum(phase, period_s - phase) <= NEAR_S
    replies_s, replies_ms = t_s[~lost], rtt_ms[~lost]

    def measured(offset_s: float) -> tuple[float | None, float | None, float | None]:
        begin = edge_s + offset_s
        edges = edges_near(t_s, begin, period_s)
        edges = _some(edges[(edges >= t_s[0]) & (edges < t_s[-1])])
        if not edges.size or not replies_s.size:
            return None, None, None
        first, after, end = (np.searchsorted(replies_s, edges + later) for later in (0.0, AFTER_S, period_s))
        excesses = [
            replies_ms[i:j].max() - np.median(replies_ms[i:k])
            for i, j, k in zip(first, after, end, strict=True)
            if j > i
        ]
        silence = [longest for _, longest in map(partial(_silence, replies_s), edges)]
        high = float(np.quantile(excesses, 0.95)) if excesses else None
        return _median(excesses), high, _median([value * 1e3 for value in silence])

    excess, excess_p95, silence = measured(0.0)
    excess_mid, _, silence_mid = measured(period_s / 2)
    return AtEdges(
        excess,
        excess_p95,
        excess_mid,
        float(lost[near].mean()) if near.any() else None,
        float(lost[~near].mean()) if not near.all() else None,
        silence,
        silence_mid,
    )


def _median(values: list[float]) -> float | None:
    return float(np.median(values)) if values else None
