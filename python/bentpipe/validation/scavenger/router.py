"""Generated traffic that a router and a run's interface count ten times a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.testbed.agent.counters import ByteCounts, Rates
from bentpipe.testbed.agent.scavenger.own_traffic import OwnTraffic
from bentpipe.testbed.agent.scavenger.router_traffic import RouterTraffic
from bentpipe.testbed.schemas.policy import ScavengerLevels
from bentpipe.validation.scavenger.detection import delays_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from bentpipe.validation.scavenger.detection import Delays

    Floats = NDArray[np.float64]

PACKET_BYTES, FRAMING = 1500, 1.03
"""Bytes of a packet, and the router's count of it by that of the run's interface."""

OWN_BPS = 54e6
"""Rate of the run's own traffic [bit/s]."""

EVERY_S, JITTER_S = 0.1, 0.02
"""Interval of readings and its jitter [s]; the two readers are not in step."""


def _steady(rng: np.random.Generator, count: int, length_s: float) -> Floats:
    return np.linspace(0, length_s, count) + rng.normal(0, 5e-4, count)


def _bursts(rng: np.random.Generator, count: int, length_s: float) -> Floats:
    return np.floor(np.linspace(0, length_s, count) / 0.05) * 0.05 + rng.uniform(0, 0.02, count)


def _varying(rng: np.random.Generator, count: int, length_s: float) -> Floats:
    rates = rng.lognormal(0, 0.5, int(length_s / EVERY_S))
    place = rng.choice(len(rates), count, p=rates / rates.sum())
    return place * EVERY_S + rng.uniform(0, EVERY_S, count)


def _segments(rng: np.random.Generator, count: int, length_s: float) -> Floats:
    return 4.0 * rng.integers(0, int(length_s / 4), count) + rng.uniform(0, 2, count)


SHAPES: dict[str, Callable[[np.random.Generator, int, float], Floats]] = {
    "steady": _steady,
    "bursts of 20 ms": _bursts,
    "varying every 0.1 s": _varying,
    "2 s of every 4 s": _segments,
}
"""Shapes of the run's own traffic: times of its packets [s]."""


def router_false_yields(shape: str, hours: float, rng: np.random.Generator) -> int:
    """Return how many readings count as a household's beside a run's own traffic of a shape."""
    length_s = hours * 3600
    sent_s = np.sort(SHAPES[shape](rng, int(OWN_BPS / 8 / PACKET_BYTES * length_s), length_s))
    return sum(residual_s >= 0 for residual_s in _yields(sent_s, np.zeros(0), rng, length_s))


def router_delays(rate_bps: float, draws: int, rng: np.random.Generator, shape: str | None = None) -> Delays:
    """Return the delays of a household's packets of `rate_bps`, alone or beside own traffic of a shape."""
    delays, missed, length_s = list[float](), 0, 8.0
    while len(delays) + missed < draws:
        start_s = 2.0 + float(rng.uniform(0, 1))
        count = rng.poisson(rate_bps / 8 / PACKET_BYTES * (length_s - start_s))
        user_s = np.sort(rng.uniform(start_s, length_s, count))
        own = SHAPES[shape](rng, int(OWN_BPS / 8 / PACKET_BYTES * length_s), length_s) if shape else np.zeros(0)
        first_s = next(iter(_yields(np.sort(own), user_s, rng, length_s)), None)
        if first_s is None:
            missed += 1
        elif first_s >= start_s:
            delays.append(first_s - start_s)
    return delays_of(delays, missed)


def _yields(own_s: Floats, user_s: Floats, rng: np.random.Generator, length_s: float) -> list[float]:
    """Return the times at which readings are judged as a household's [s]."""
    seen_s = np.sort(own_s + 0.002 + rng.exponential(0.002, len(own_s)))
    ticks = np.arange(EVERY_S, length_s, EVERY_S)
    own_at, router_at = (ticks + rng.uniform(0, EVERY_S) + rng.uniform(0, JITTER_S, len(ticks)) for _ in range(2))
    router_bytes = (np.searchsorted(seen_s, router_at) + np.searchsorted(user_s, router_at)) * PACKET_BYTES * FRAMING
    # The agent labels what it read up to a tenth of a second before.
    own_bytes = np.searchsorted(own_s, own_at - rng.uniform(0, EVERY_S, len(own_at))) * PACKET_BYTES
    own_bytes = np.maximum.accumulate(own_bytes)
    own = OwnTraffic()
    router = RouterTraffic(ScavengerLevels(), own)
    times, place = [], 0
    for number in range(1, len(ticks)):
        t_s, before_s = float(router_at[number]), float(router_at[number - 1])
        while place < len(ticks) and own_at[place] <= t_s:
            own.add(ByteCounts(float(own_at[place]), int(own_bytes[place]), 0))
            place += 1
        down_bps = 8 * float(router_bytes[number] - router_bytes[number - 1]) / (t_s - before_s)
        times += [t_s for each in router.observe(Rates(t_s, t_s - before_s, down_bps, 0.0)) if each.is_user]
    return times
