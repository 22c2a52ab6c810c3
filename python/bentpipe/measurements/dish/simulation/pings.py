"""Simulate the terminal's pings to its point of presence over a Profile, second by second."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bentpipe.profiles.path import PathView
from bentpipe.profiles.table import DIRECTIONS, Direction

Floats = NDArray[np.float64]

#: Pings per second: drop rates in published dumps are multiples of 1/15 (NUWiNS/starlink-measurement, get_history).
PINGS_PER_S = 15
#: A ping that takes longer [s] is lost. Chosen here: no published dump has a latency that is higher.
LOST_AFTER_S = 1.0
#: Terminals report the mean RTT over this many seconds: regressed on pings of the same minutes, lags 0 to 14 s have
#: equal weights (LEOViz, Victoria, May 2025), and differences of FjordLink's telemetry have their lowest
#: autocorrelation at 15 s.
MEAN_S = 15
#: Seconds computed at once.
_CHUNK_S = 60


def running_mean(drop: Floats, latency_ms: Floats) -> Floats:
    """Return the mean RTT [ms] of the answered pings in the last `MEAN_S` seconds; 0 where there are none.

    Args:
        drop: Fraction lost in each second, consecutive.
        latency_ms: Mean RTT in each second.
    """
    if not len(drop):
        return drop
    window, answered = np.ones(MEAN_S), 1.0 - drop
    count = np.convolve(answered, window)[: len(drop)]
    total = np.convolve(answered * latency_ms, window)[: len(drop)]
    return np.where(count > 0, total / np.maximum(count, 1e-9), 0.0)


class Pings:
    """Drop rate and mean RTT in each second of a Profile; computed on first use, then cached.

    A ping passes every hop from the terminal to the PoP (not hops ``pop:…``, from there to the server) and returns at
    once. It waits while a hop's grant schedule is closed or the hop is interrupted, takes the hop's delay, and is lost
    with the hop's probability. A ping without a route, or slower than `LOST_AFTER_S`, is lost too. The draws depend
    only on the seed and the number of the ping. In gaps of a measured Profile the last known values hold.
    """

    def __init__(self, view: PathView, seconds: int, seed: int) -> None:
        """`seconds`: number of seconds of the Profile."""
        self._view, self._seed = view, seed
        self._drop = np.full(seconds, np.nan)
        self._latency_ms = np.full(seconds, np.nan)
        self._routes = view.routes()
        names = [hop["name"] for hop in view.metadata["hops"]]
        self._beyond = {place for place, name in enumerate(names) if name.startswith("pop:")}

    def at(self, seconds: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Return drop rate (0 to 1) and mean RTT [ms] (0 if all were lost) in seconds of the Profile."""
        for chunk in np.unique(seconds // _CHUNK_S).tolist():
            if np.isnan(self._drop[chunk * _CHUNK_S]):
                self._compute(chunk * _CHUNK_S, min((chunk + 1) * _CHUNK_S, len(self._drop)))
        return self._drop[seconds], self._latency_ms[seconds]

    def _compute(self, first: int, end: int) -> None:
        number = np.arange(first * PINGS_PER_S, end * PINGS_PER_S)
        sent = number / PINGS_PER_S
        now, lost = sent.copy(), np.zeros(len(sent), dtype=bool)
        for direction in DIRECTIONS:  # up, then down
            now, dropped = self._travel(direction, now, number)
            lost |= dropped
        rtt_s = now - sent
        lost |= ~(rtt_s <= LOST_AFTER_S)
        shape = (end - first, PINGS_PER_S)
        answered = (~lost).reshape(shape).sum(axis=1)
        total = np.where(lost, 0.0, rtt_s).reshape(shape).sum(axis=1)
        self._drop[first:end] = 1.0 - answered / PINGS_PER_S
        self._latency_ms[first:end] = np.where(answered > 0, total / np.maximum(answered, 1) * 1e3, 0.0)

    def _travel(
        self, direction: Direction, start: Floats, number: NDArray[np.int64]
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the arrival times of pings in one direction, and which are lost."""
        arrive, lost = start.copy(), np.ones(len(start), dtype=bool)
        places = np.searchsorted([at for at, _, _ in self._routes], start, side="right") - 1
        for place in np.unique(places).tolist():
            on_route = np.flatnonzero(places == place)
            hops = [hop for hop in self._routes[place][2] if hop not in self._beyond]
            if not self._routes[place][2]:
                continue
            at, lost_here = start[on_route], np.zeros(len(on_route), dtype=bool)
            for hop in hops if direction == "up" else hops[::-1]:
                at, dropped = self._pass(hop, direction, at, number[on_route])
                lost_here |= dropped
            arrive[on_route], lost[on_route] = at, lost_here
        return arrive, lost

    def _pass(
        self, hop: int, direction: Direction, at: Floats, number: NDArray[np.int64]
    ) -> tuple[Floats, NDArray[np.bool_]]:
        view, dropped = self._view, np.zeros(len(at), dtype=bool)
        for begin, end in view.interruptions(hop):
            at = np.where((at >= begin) & (at < end), end, at)
        closures = view.points(hop, direction, "jitter_s")
        if closures is not None and len(closures.t_s):
            which = np.searchsorted(closures.t_s, at, side="right") - 1
            ends = closures.t_s[which] + closures.value[which]
            at = np.where((which >= 0) & (at < ends), ends, at)
        loss = view.points(hop, direction, "loss_probability")
        if loss is not None and len(loss.t_s):
            chance = loss.value[np.maximum(np.searchsorted(loss.t_s, at, side="right") - 1, 0)]
            dropped = uniform(number, self._seed * 4096 + hop * 2 + (direction == "down")) < chance
        delay = view.points(hop, direction, "delay_s")
        if delay is None:
            return at, dropped
        return at + np.interp(at, delay.t_s, delay.value), dropped


def uniform(number: NDArray[np.int64], stream: int) -> Floats:
    """Return random numbers from 0 to 1 for each number of a stream: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        x = number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
            (stream * 0xD1342543DE82EF95 + 1) % 2**64
        )
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x ^= x >> np.uint64(31)
    return (x >> np.uint64(11)).astype(np.float64) / 2.0**53
