"""Models that are wrong on purpose: each must fail the rank test, the classifier and the transport test.

All but `without_slots` change the RTTs of a window of the model; `without_slots` changes its parameters.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import numpy as np

from bentpipe.validation.access_model.model import Params
from bentpipe.validation.access_model.pings import SLOT_S, WINDOW_S, Floats, Window
from bentpipe.validation.access_model.statistics import Summary

Change = Callable[[Floats, Floats, np.random.Generator], Floats]


def without_slots(params: Params) -> Params:
    """Return parameters under which nothing changes at slot edges. The mean offset stays."""
    changed = copy.deepcopy(params)
    delay, queue = changed["delay"], changed["delay"]["queue"]
    changed["load"]["slot_log_sigma"] = 0.0
    delay["interruption"]["median_ms"] = 0.0
    delay["grants"]["period_weights"] = [0.0, 0.0, 0.0, 1.0, 0.0]
    delay["site_offset_ms"] += queue["mean_ms"] + queue["raised_probability"] * queue["raised_mean_ms"]
    queue["mean_ms"] = 0.0
    queue["raised_probability"] = 0.0
    return changed


def shuffled(t_s: Floats, rtt_ms: Floats, rng: np.random.Generator) -> Floats:
    """Shuffle the RTTs within each slot."""
    slot = (t_s / SLOT_S).astype(int)
    out = rtt_ms.copy()
    for k in np.unique(slot):
        out[slot == k] = rng.permutation(rtt_ms[slot == k])
    return out


def constant(t_s: Floats, rtt_ms: Floats, rng: np.random.Generator) -> Floats:
    """Replace all RTTs by the window's median."""
    return np.full(t_s.size, float(np.median(rtt_ms)))


def gaussian(t_s: Floats, rtt_ms: Floats, rng: np.random.Generator) -> Floats:
    """Replace the RTTs by normal noise of the same mean and standard deviation, not below the smallest RTT."""
    noise: Floats = rng.normal(rtt_ms.mean(), rtt_ms.std(), t_s.size)
    cut: Floats = np.maximum(noise, rtt_ms.min())
    return cut


#: Name → function that changes a window's RTTs.
CHANGES: Mapping[str, Change] = {"in-slot shuffle": shuffled, "constant delay": constant, "Gaussian noise": gaussian}
#: The control that is the model with other parameters.
NO_SLOTS = "no handovers, no slots"


def replays(
    window: Window, count: int, rng: np.random.Generator, reduce: Callable[[Floats, Floats], Summary]
) -> list[Summary]:
    """Return a model fitted to one window, which it repeats.

    Whole seconds are drawn within each slot, so that repetitions differ as much as one window allows.
    """
    second = window.t_s.astype(int)
    made = []
    for _ in range(count):
        times, rtts = [], []
        for k in range(int(WINDOW_S)):
            first = k // int(SLOT_S) * int(SLOT_S)
            source = first + int(rng.integers(int(SLOT_S)))
            inside = second == source
            times.append(window.t_s[inside] - source + k)
            rtts.append(window.rtt_ms[inside])
        made.append(reduce(np.concatenate(times), np.concatenate(rtts)))
    return made
