"""False yields on telemetry, and delays until traffic that is added to it is detected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.testbed.agent.counters import ByteCounts, Rates
from bentpipe.testbed.agent.scavenger.own_traffic import OwnTraffic
from bentpipe.testbed.agent.scavenger.router_traffic import RouterTraffic
from bentpipe.testbed.agent.scavenger.user_traffic import UserTraffic
from bentpipe.testbed.schemas.policy import ScavengerLevels
from bentpipe.validation.scavenger.telemetry import EDGE, LOAD_BPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bentpipe.validation.scavenger.telemetry import Day

POLL_S = 0.5
"""Interval of polls while a run is there [s]: a reading is up to this old when it comes."""

HORIZON_S = 10.0
"""Delay from which traffic counts as missed [s]."""

BEFORE, AFTER = 20, 12
"""Samples before and after the traffic's start that the detector sees."""

LASTING_S = 5
"""Traffic above the level for this long is no false alarm [s]."""

MOST_LAG_S = 1.5
"""Longest time by which a reading is older than the counters [s]."""

QUIET_S = 60.0
"""Quiet after a yield [s]."""


@dataclass(frozen=True)
class Delays:
    """Delays until detection.

    Attributes:
        p50_s, p99_s: Quantiles [s].
        p99_between_s: 95 % interval of the 99th percentile, from order statistics [s].
        n: Number of starts.
        missed: Of these not detected within `horizon_s`.
    """

    p50_s: float
    p99_s: float
    p99_between_s: tuple[float, float]
    n: int
    missed: int
    horizon_s: float = HORIZON_S


@dataclass
class FalseYields:
    """Yields without traffic of a household.

    Attributes:
        hours: Telemetry that was judged [h].
        count: False yields.
        edges: Starts and ends of the load.
        at_edges: False yields there.
        lasting: Yields on traffic above the level that lasted, one line each.
    """

    hours: float = 0.0
    count: int = 0
    edges: int = 0
    at_edges: int = 0
    lasting: list[str] = field(default_factory=list)


def false_yields(days: Sequence[Day], *, is_loaded: bool, own_share: float = 0.1, seed: int = 1) -> FalseYields:
    """Count yields on idle telemetry, or beside the load.

    After a yield the detector begins anew, `QUIET_S` later in idle telemetry, as a run does. The load's counters are up
    to `MOST_LAG_S` ahead of the readings, drawn for each stretch.
    """
    levels, result, rng = ScavengerLevels(own_share=own_share), FalseYields(), np.random.default_rng(seed)
    for day in days:
        own_bps = day.own_down_bps + day.own_up_bps
        is_load = (day.own_down_bps > LOAD_BPS) | (day.own_up_bps > LOAD_BPS)
        near_edge = np.zeros(len(day.t_s), bool)
        edges = np.flatnonzero(np.diff(is_load.astype(int))) if is_loaded else np.zeros(0, int)
        for edge in edges:
            near_edge[max(0, edge - EDGE) : edge + EDGE + 1] = True
        judged = ((own_bps > 0) | near_edge) if is_loaded else day.is_idle
        result.edges += len(edges)
        result.hours += float(np.count_nonzero(judged & ~near_edge)) / 3600
        own, user = _fresh(levels)
        lag_s, free_s = 0.0, float("-inf")
        for row in np.flatnonzero(judged)[:-3]:
            t_s = float(day.t_s[row])
            if row and not judged[row - 1]:
                own, user = _fresh(levels)
                lag_s = float(rng.uniform(0, MOST_LAG_S))
            if t_s < free_s:
                continue
            if is_loaded:
                _count_until(own, day, row, lag_s)
            if not user.observe(t_s, float(day.down_bps[row]), float(day.up_bps[row])).is_user:
                continue
            after = slice(row, row + LASTING_S)
            means = day.down_bps[after].mean(), day.up_bps[after].mean()
            own, user = _fresh(levels)
            if not is_loaded:
                free_s = t_s + QUIET_S
            if not is_loaded and (means[0] > levels.down or means[1] > levels.up):
                result.lasting.append(f"{day.name}, {means[0] / 1e6:.2f} Mbit/s down")
            elif near_edge[row]:
                result.at_edges += 1
            else:
                result.count += 1
    return result


def router_on_idle(days: Sequence[Day]) -> FalseYields:
    """Count yields of the router's detector on idle telemetry, whose seconds stand for a router's."""
    levels, result = ScavengerLevels(), FalseYields()
    for day in days:
        router, free_s = RouterTraffic(levels, OwnTraffic()), float("-inf")
        result.hours += float(np.count_nonzero(day.is_idle)) / 3600
        for row in np.flatnonzero(day.is_idle)[1:-LASTING_S]:
            t_s, rate = float(day.t_s[row]), (float(day.down_bps[row]), float(day.up_bps[row]))
            duration_s = t_s - float(day.t_s[row - 1])
            if (
                t_s < free_s
                or duration_s > 3
                or not any(e.is_user for e in router.observe(Rates(t_s, duration_s, *rate)))
            ):
                continue
            free_s = t_s + QUIET_S
            after = slice(row, row + LASTING_S)
            means = day.down_bps[after].mean(), day.up_bps[after].mean()
            if means[0] > levels.down or means[1] > levels.up:
                result.lasting.append(f"{day.name}, {means[0] / 1e6:.2f} Mbit/s down")
            else:
                result.count += 1
    return result


def _count_until(own: OwnTraffic, day: Day, row: int, lag_s: float) -> None:
    """Add the counters that are known when a reading comes: those of readings up to `lag_s` later."""
    for other in range(max(0, row - 1), min(row + 3, len(day.t_s))):
        at_s = float(day.t_s[other]) - lag_s
        own.add(ByteCounts(at_s, int(day.own_down_bytes[other]), int(day.own_up_bytes[other])))
        if at_s >= day.t_s[row]:
            break


def detect_added(
    days: Sequence[Day],
    rate: tuple[float, float],
    draws: int,
    rng: np.random.Generator,
    *,
    is_loaded: bool,
    poll_s: float = POLL_S,
) -> Delays:
    """Add traffic at random times; return the delays until it is detected.

    Args:
        days: Telemetry.
        rate: Traffic down and up [bit/s].
        draws: Number of starts.
        rng: Draws the times, the age of readings and how far counters are ahead of them.
        is_loaded: Inside of the load, or in idle telemetry.
        poll_s: Interval of polls: a reading is 0 to this old [s].
    """
    places = [(day, row) for day in days for row in _starts(day, is_loaded=is_loaded)]
    delays: list[float] = []
    missed = 0
    while len(delays) + missed < draws:
        day, row = places[rng.integers(len(places))]
        part, age_s, lag_s = (float(rng.uniform(0, most)) for most in (1.0, poll_s, MOST_LAG_S if is_loaded else 0.0))
        delay_s = _delay(day, row, rate, part, age_s, lag_s)
        if delay_s is None:
            missed += 1
        elif delay_s >= 0:  # a false yield before the start is counted elsewhere
            delays.append(delay_s)
    return delays_of(delays, missed)


def delays_of(delays: list[float], missed: int) -> Delays:
    """Return the distribution of delays [s] and of starts that were missed."""
    all_s = np.sort(np.array(delays + [HORIZON_S] * missed))
    n = len(all_s)
    middle, half = 0.99 * n, 1.96 * float(np.sqrt(0.99 * 0.01 * n))
    low, high = (float(all_s[min(max(round(rank), 0), n - 1)]) for rank in (middle - half, middle + half))
    return Delays(float(np.quantile(all_s, 0.5)), float(np.quantile(all_s, 0.99)), (low, high), n, missed)


def _fresh(levels: ScavengerLevels) -> tuple[OwnTraffic, UserTraffic]:
    own = OwnTraffic()
    return own, UserTraffic(levels, own)


def _starts(day: Day, *, is_loaded: bool) -> NDArray[np.int64]:
    """Return rows at which traffic may start: enough rows of the same kind around, without a gap."""
    kind = day.own_down_bps > LOAD_BPS if is_loaded else day.is_idle
    before, after = (8, 8) if is_loaded else (BEFORE, AFTER)
    whole = np.ones(len(kind), bool)
    for shift in range(-before, after + 1):
        whole &= np.roll(kind, shift)
    whole &= np.roll(np.diff(day.t_s, append=day.t_s[-1] + 1) < 1.5, 0)
    whole[: BEFORE + 1] = whole[-AFTER - 1 :] = False
    return np.flatnonzero(whole)


def _delay(day: Day, row: int, rate: tuple[float, float], part: float, age_s: float, lag_s: float) -> float | None:
    """Return the delay [s]; None: not detected; negative: a yield before the traffic."""
    own, user = _fresh(ScavengerLevels())
    start_s = float(day.t_s[row]) - part
    for at in range(row - BEFORE, min(row + AFTER, len(day.t_s))):
        t_s = float(day.t_s[at])
        _count_until(own, day, at, lag_s)
        share = min(1.0, max(0.0, t_s - age_s - start_s))
        readings = float(day.down_bps[at]) + share * rate[0], float(day.up_bps[at]) + share * rate[1]
        if user.observe(t_s, *readings).is_user:
            return t_s - start_s if t_s >= start_s else -1.0
    return None
