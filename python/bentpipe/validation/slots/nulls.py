"""Null series made from measured ones: they keep the data's steps, noise and gaps but not its phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from bentpipe.validation.access_model.pings import SLOT_S, Floats

#: Times [s], increasing, and RTTs [ms].
Pings = tuple[Floats, Floats]
_Part = tuple[Floats, Floats, float]

#: Least length of a stretch [s]: three slots.
LEAST_S = 45.0
#: Least replies for a slot's median.
_LEAST_REPLIES = 4


def permuted(pings: Pings, rng: np.random.Generator, least_s: float = LEAST_S, most_s: float = 2 * LEAST_S) -> Pings:
    """Shuffle stretches of 45 to 90 s, or of the given lengths, so that each has a random phase.

    No stretch keeps its successor: of five in any order, one in 120 would be the original.
    """
    t_s, _ = pings
    parts, at = [], float(t_s[0])
    while at < t_s[-1] - least_s:
        length = rng.uniform(least_s, most_s)
        parts.append(_cut(pings, at, min(length, float(t_s[-1]) - at)))
        at += length
    order = rng.permutation(len(parts))
    while len(parts) > 1 and (np.diff(order) == 1).any():
        order = rng.permutation(len(parts))
    return _join([parts[i] for i in order])


def redrawn(pings: Pings, rng: np.random.Generator) -> Pings:
    """Join random stretches of the series, each 45 s plus an exponential time (mean 20 s) long."""
    t_s, _ = pings
    span, total = float(t_s[-1] - t_s[0]), 0.0
    parts = []
    while total < span:
        length = min(LEAST_S + rng.exponential(20.0), span / 2)
        parts.append(_cut(pings, float(t_s[0]) + rng.uniform(0, span - length), length))
        total += length
    return _join(parts)


def rotated(pings: Pings, rng: np.random.Generator) -> Pings:
    """Rotate each stretch of 45 to 90 s in place by a random time.

    Lengths vary: joints every 45 s would be a clock.
    """
    t_s, _ = pings
    parts, at = [], float(t_s[0])
    while at < t_s[-1] - LEAST_S:
        length = min(rng.uniform(LEAST_S, 2 * LEAST_S), float(t_s[-1]) - at)
        inside_s, rtt_ms, _ = _cut(pings, at, length)
        inside_s = (inside_s + rng.uniform(0, length)) % length
        order = np.argsort(inside_s)
        parts.append((inside_s[order], rtt_ms[order], length))
        at += length
    return _join(parts)


def shifts(mean_s: float) -> Callable[[Pings, np.random.Generator], Pings]:
    """Return a maker of series whose levels, drawn from the slots' medians, change by a Poisson process.

    The noise is the data's: RTTs over their slot's median, `permuted`, so that its features at edges have no fixed
    phase.
    """

    def make(pings: Pings, rng: np.random.Generator) -> Pings:
        t_s, rtt_ms = pings
        # Which phase the slots are cut at matters little: 15 s are taken, from the first edge of UTC.
        slot = ((t_s - 12.0) // SLOT_S).astype(np.int64)
        slot -= slot[0]
        starts = np.flatnonzero(np.diff(slot, prepend=-1))
        sizes = np.diff(np.append(starts, slot.size))
        medians = np.array([np.median(rtt_ms[i : i + n]) for i, n in zip(starts, sizes, strict=True)])
        relative = rtt_ms / np.repeat(medians, sizes)
        moved_s, noise = permuted((t_s, relative), rng)
        count = int(4 * (moved_s[-1] - moved_s[0]) / mean_s) + 20
        changes = moved_s[0] + np.cumsum(rng.exponential(mean_s, count))
        levels = rng.choice(medians[sizes >= _LEAST_REPLIES], count + 1)
        return moved_s, noise * levels[np.searchsorted(changes, moved_s)]

    return make


def drifting(pings: Pings, rng: np.random.Generator) -> Pings:
    """Add to `permuted` a slow swing over the whole series and a random walk, 30 % and 10 % of the delay."""
    t_s, rtt_ms = permuted(pings, rng)
    span = float(t_s[-1] - t_s[0])
    swing = 0.3 * np.sin(np.pi * (t_s - t_s[0]) / span + rng.uniform(0, np.pi))
    knots = np.arange(0, span + 2, 1.0)
    walk = np.cumsum(rng.standard_normal(knots.size)) * 0.1 / np.sqrt(knots.size)
    return t_s, rtt_ms * np.exp(swing + np.interp(t_s - t_s[0], knots, walk))


NULLS: Mapping[str, Callable[[Pings, np.random.Generator], Pings]] = {
    "stretches of 45 to 90 s in another order": permuted,
    "stretches of 90 to 180 s in another order": partial(permuted, least_s=90.0, most_s=180.0),
    "stretches of 45 s and more from anywhere": redrawn,
    "stretches of 45 to 90 s, each turned around": rotated,
    "Poisson level shifts every 15 s": shifts(15.0),
    "Poisson level shifts every 45 s": shifts(45.0),
    "stretches in another order, drifting": drifting,
}


def _cut(pings: Pings, at_s: float, length_s: float) -> _Part:
    t_s, rtt_ms = pings
    inside = slice(*np.searchsorted(t_s, [at_s, at_s + length_s]))
    return t_s[inside] - at_s, rtt_ms[inside], length_s


def _join(parts: list[_Part]) -> Pings:
    starts = np.concatenate([[0.0], np.cumsum([length for _, _, length in parts])])
    times = [t_s + start for (t_s, _, _), start in zip(parts, starts[:-1], strict=True)]
    return np.concatenate(times), np.concatenate([rtt_ms for _, rtt_ms, _ in parts])
