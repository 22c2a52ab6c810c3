"""What a sender over several paths knows of one to come: learned from pings before, or what will be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bentpipe.analysis.edges import silences_s
from bentpipe.errors import UserError
from bentpipe.execution.multipath import PathOutlook
from bentpipe.predict.handovers import HandoverModel, arrivals_s, handovers_in
from bentpipe.predict.horizons import parse_horizon
from bentpipe.predict.levels import MEDIAN
from bentpipe.predict.signals import PINGS, Signal, on_grid
from bentpipe.profiles.path import PathView
from bentpipe.profiles.pings import ping_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from bentpipe._native import Profile
    from bentpipe.predict.score import Fitted

    Floats = NDArray[np.float64]

PING_S = 0.02 * (1 + 1 / 599)
"""Time between pings [s]; not a divisor of the slot, so that they meet its edges at all phases."""

INTERRUPTION_LEVEL = 0.75
"""Level of the quantile of silences at edges that is expected of the next. Chosen on four design windows
(docs/guides/multi-access.md): longer interruptions let windows restart, shorter ones lose data at edges."""

ERRORS = 1.0
"""Standard errors of the clock by which an expected interruption is longer at each end; chosen on the same windows."""

LOST = 0.5
"""Loss from which on the oracle counts a time as an interruption [share]; chosen here: an episode loses 0.8."""

HISTORY_S = 360.0
"""History of a feature [s]: the longest window is 300 s."""

REPLIES_S = 0.25
"""Time after a step until the replies of its last pings have arrived [s]; chosen here: longer than any RTT in use."""

TAIL_S = 60.0
"""Time before a forecast of the tail that it rests on [s]; chosen here: four slots, 3000 pings."""

TAIL_LEVEL = 0.99
"""Level of the quantile of the tail: that which the study `multi-access` compares."""

REPAIR_MS = 200.0
"""Time by which the repair of a loss delays data beside an RTT [ms]: the least time-out of Linux (`TCP_RTO_MIN`)."""

KNOWN_STEP_S = 0.005
"""Step at which the oracle knows the delay [s]."""


@dataclass(frozen=True)
class LearnedPath:
    """What pings before a run show of a path.

    Attributes:
        handovers: Clock and levels; None: no slots were found.
        interruption_s: Expected interruption at an edge [s]: a quantile of the silences there, less the median one in
            the middle of slots, which jitter and the spacing of pings make.
        model: Predictor of the mean RTT of the next second.
        until_s: End of the pings that it was learned from [s since the Profile's start].
    """

    handovers: HandoverModel | None
    interruption_s: float
    model: Fitted
    until_s: float


def learn_path(profile: Profile, until_s: float, *, model: str = "ols-phase", seed: int = 0) -> LearnedPath:
    """Learn from pings of the first `until_s` of a Profile: slot clock, interruption, and a predictor of the RTT.

    Raises:
        UserError: The time is too short.
    """
    from bentpipe.predict.score import train

    pings = _pings(profile, until_s, seed)
    arrived = pings.filter(
        pl.col("unix_ns") + pl.col("rtt_ms").fill_null(0.0) * 1e6 < profile.start_unix_ns + until_s * 1e9
    )
    try:
        handovers = handovers_in(arrived.lazy(), profile.name)
        interruption_s = _interruption_s(arrived, handovers)
    except UserError:
        handovers, interruption_s = None, 0.0
    return LearnedPath(
        handovers, interruption_s, train([_signal(arrived, profile.name)], model, parse_horizon("1s")), until_s
    )


def forecast_outlook(profile: Profile, learned: LearnedPath, until_s: float, *, seed: int = 0) -> PathOutlook:
    """Return the outlook of a path from `learned.until_s` to `until_s`: at each second from the pings before it.

    The pings pass an otherwise idle path, as the same host's would before its own data.
    """
    from bentpipe.predict.dataset import quantiles_of, to_values
    from bentpipe.predict.features import features_table

    pings = _pings(profile, until_s, seed)
    spec, start_s = learned.model.spec, profile.start_unix_ns / 1e9
    rtts = []
    for session in _signal(pings, profile.name).sessions:
        keep = session.t_s >= start_s + learned.until_s - HISTORY_S
        times = session.t_s[keep]
        rows, ready, reference = features_table(spec, times, session.values[keep])
        median = to_values(quantiles_of(learned.model.estimator, rows), reference, spec)[:, MEDIAN]
        made_s = times + spec.step_s + REPLIES_S - start_s
        usable = ready & np.isfinite(median) & (median > 0)
        rtts += [(_ns(at_s), _ns(ms / 1e3)) for at_s, ms in zip(made_s[usable], median[usable], strict=True)]
    return PathOutlook(rtts_ns=tuple(rtts), interruptions_ns=_expected_interruptions(learned, start_s, until_s))


def tail_outlook(profile: Profile, learned: LearnedPath, until_s: float, *, seed: int = 0) -> PathOutlook:
    """Return an outlook as `forecast_outlook`, with a high quantile of the last minute's RTTs in place of a forecast.

    A lost ping counts as the time that TCP takes to repair a loss: a scheduler that is to avoid late data sees both.
    """
    pings, start_s = _pings(profile, until_s, seed), profile.start_unix_ns / 1e9
    sent_s, rtt_ms = pings["unix_ns"].to_numpy() / 1e9 - start_s, pings["rtt_ms"].cast(float).to_numpy()
    rtt_ms = np.where(np.isfinite(rtt_ms), rtt_ms, REPAIR_MS + np.nanmedian(rtt_ms[sent_s < learned.until_s]))
    rtts = []
    for end_s in np.arange(np.ceil(learned.until_s - 1.0), until_s, 1.0):
        first, after = np.searchsorted(sent_s, [end_s - TAIL_S, end_s])
        rtts.append((_ns(end_s + REPLIES_S), _ns(float(np.quantile(rtt_ms[first:after], TAIL_LEVEL)) / 1e3)))
    return PathOutlook(rtts_ns=tuple(rtts), interruptions_ns=_expected_interruptions(learned, start_s, until_s))


def known_outlook(profile: Profile, from_s: float, until_s: float) -> PathOutlook:
    """Return what a path down will be: a bound that no forecast reaches.

    Its RTTs are twice the delay down, and its interruptions include the episodes of loss.
    """
    at_s = np.arange(from_s, until_s, KNOWN_STEP_S)
    delay_ms = profile.delay_ms("down", at_s)
    known = np.isfinite(delay_ms)
    view = PathView(profile)
    interruptions = [
        interruption for hop in range(len(view.metadata["hops"])) for interruption in view.interruptions(hop)
    ]
    loss = view.loss("down")
    ends_s = np.append(loss.t_s[1:], view.duration_s)
    interruptions += [
        (begin, end) for begin, end, lost in zip(loss.t_s, ends_s, loss.value, strict=True) if lost >= LOST
    ]
    inside = sorted((_ns(begin), _ns(end)) for begin, end in interruptions if begin < until_s and end > from_s)
    return PathOutlook(
        rtts_ns=tuple((_ns(t), _ns(2e-3 * ms)) for t, ms in zip(at_s[known], delay_ms[known], strict=True)),
        interruptions_ns=tuple(_merged(inside)),
    )


def _merged(interruptions: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield interruptions, in order of their begins, as ones that do not overlap."""
    current: tuple[int, int] | None = None
    for begin, end in interruptions:
        if current is not None and begin <= current[1]:
            current = current[0], max(current[1], end)
            continue
        if current is not None:
            yield current
        current = begin, end
    if current is not None:
        yield current


def _interruption_s(pings: pl.DataFrame, model: HandoverModel) -> float:
    replies_s = arrivals_s(pings.lazy())
    first_s, _ = model.next_edge(float(replies_s[0]) + 1.0)
    edges_s = np.arange(first_s, replies_s[-1] - model.period_s / 2 - 1.0, model.period_s)
    usual_s = float(np.median(silences_s(replies_s, edges_s + model.period_s / 2)))
    return max(0.0, float(np.quantile(silences_s(replies_s, edges_s), INTERRUPTION_LEVEL)) - usual_s)


def _expected_interruptions(learned: LearnedPath, start_s: float, until_s: float) -> tuple[tuple[int, int], ...]:
    model = learned.handovers
    if model is None:
        return ()
    error_s = ERRORS * model.phase_error_s
    first_s, _ = model.next_edge(start_s + learned.until_s - model.period_s)
    edges_s = np.arange(first_s - start_s, until_s, model.period_s)
    return tuple((max(0, _ns(edge_s - error_s)), _ns(edge_s + learned.interruption_s + error_s)) for edge_s in edges_s)


def _pings(profile: Profile, until_s: float, seed: int) -> pl.DataFrame:
    return ping_table(profile, np.arange(0.0, until_s, PING_S), seed=seed)


def _signal(pings: pl.DataFrame, name: str) -> Signal:
    times = pings["unix_ns"].to_numpy() / 1e9
    return Signal(PINGS, name, on_grid(times, pings["rtt_ms"].cast(float).fill_null(float("nan")).to_numpy()))


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
