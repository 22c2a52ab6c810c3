"""The most that any sender can deliver over a Profile: the bound of all controllers.

A packet that leaves the bottleneck has used its capacity, lost or not. So no sender delivers more than the capacity
times the chance of arrival, summed over the time in which packets may leave the bottleneck and arrive in time. A sender
that knows the capacity to come reaches it with an empty queue: each packet arrives as the one before it has left. A
queue that it allows adds nothing, so this bound is one figure and no curve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.profiles.path import PathView, held

if TYPE_CHECKING:
    from bentpipe._native import Profile
    from bentpipe.profiles.path import Floats
    from bentpipe.profiles.table import Direction

#: Step of the integral [s]: far below the length of a loss episode or of a step of the capacity.
_STEP_S = 5e-5
#: Payload and size of a full packet [bytes]: IPv4 and TCP with timestamps in 1,500 bytes.
PAYLOAD_BYTES, PACKET_BYTES = 1448, 1500


def bound_bps(profile: Profile, direction: Direction, from_s: float, to_s: float) -> float:
    """Return the greatest goodput that is possible between two times [bit/s], without a warm-up.

    The capacity is that of the slowest hop in use; it is zero without a path and during interruptions. A packet that
    leaves this hop waits for its grant, may be lost then (with the probability of all hops at that moment), and arrives
    after the delay of the hops that follow. Only those that arrive between `from_s` and `to_s` [s from the Profile's
    start] count. Losses are taken as their mean: a Run differs from it by chance, by less than 0.1 % in a minute at
    10 Mbit/s. Data that arrived before `from_s` behind a hole may be delivered after it, and is not counted.

    Example:
        >>> from bentpipe.profiles import preset_profile
        >>> profile = preset_profile("dumbbell:rate=30mbit,rtt=40ms", 10.0)
        >>> round(bound_bps(profile, "down", 2.0, 8.0) / 1e6, 2)
        28.96
    """
    view = PathView(profile)
    capacity, loss = view.capacity(direction), view.loss(direction)
    at_s = np.arange(0.0, to_s, _STEP_S) + _STEP_S / 2
    rate = held(capacity.t_s, capacity.value, at_s)
    released_s = at_s.copy()
    arrives_s = at_s.copy()
    for start_s, end_s, hops in view.routes():
        slots = slice(*np.searchsorted(at_s, [start_s, end_s]))
        if not hops or slots.start == slots.stop:
            continue
        slowest, after = _behind_slowest(view, direction, hops)
        released_s[slots] = _released(view, slowest, direction, at_s[slots])
        arrives_s[slots] = released_s[slots]
        for hop in [slowest, *after]:
            delay = view.points(hop, direction, "delay_s")
            if delay is not None:
                arrives_s[slots] += np.interp(arrives_s[slots], delay.t_s, delay.value)
    counts = (arrives_s >= from_s) & (arrives_s < to_s) & np.isfinite(rate)
    passed = rate * (1.0 - held(loss.t_s, loss.value, released_s))
    return float(passed[counts].sum() * _STEP_S / (to_s - from_s) * PAYLOAD_BYTES / PACKET_BYTES)


def _behind_slowest(view: PathView, direction: Direction, hops: list[int]) -> tuple[int, list[int]]:
    """Return the hop with the least mean capacity and the hops that packets pass after it."""
    ordered = hops if direction == "up" else hops[::-1]
    known = {hop: points for hop in ordered if (points := view.points(hop, direction, "capacity_bps")) is not None}
    slowest = min(known, key=lambda hop: float(np.mean(known[hop].value))) if known else ordered[0]
    return slowest, ordered[ordered.index(slowest) + 1 :]


def _released(view: PathView, hop: int, direction: Direction, at_s: Floats) -> Floats:
    """Return when the grant schedule of a hop releases packets that leave its queue at `at_s` [s]."""
    closures = view.points(hop, direction, "jitter_s")
    if closures is None:
        return at_s
    last = np.searchsorted(closures.t_s, at_s, side="right") - 1
    ends = closures.t_s[np.maximum(last, 0)] + closures.value[np.maximum(last, 0)]
    released: Floats = np.where(last >= 0, np.maximum(ends, at_s), at_s)
    return released
