"""Paths of the check: LEO with slots of 15 s, fibre, GEO, and reconfigurations at random intervals."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.profiles.build import Points, Provenance, Side, single_hop_profile
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.times import SLOT_PHASE_S, SLOT_S

if TYPE_CHECKING:
    from bentpipe._native import Profile

START_UNIX_NS = 1_778_403_600_000_000_000
"""2026-05-10T09:00:00Z."""

ENDS = (
    ("melbourne", "london"),
    ("louvain", "london"),
    ("victoria", "seattle"),
    ("tokyo", "tokyo"),
    ("dallas", "ashburn"),
    ("oslo", "london"),
    ("canberra", "sydney"),
    ("lisbon", "madrid"),
    ("melbourne", "sydney"),
    ("louvain", "sydney"),
)
"""Terminal and other end of the LEO paths."""

INTERVAL_S = (8.0, 22.0)
"""Least and greatest time between two reconfigurations at random intervals [s]: 15 s in the mean. Chosen here."""
INTERRUPTION_S = (0.04, 0.09)
"""Least and greatest interruption at these [s]. Chosen here, as at the edges of slots."""
DRAWN = {"fibre": ((15.0, 100.0), (8.0, 80.0)), "geo": ((10.0, 60.0), (560.0, 700.0))}
"""Least and greatest rate [Mbit/s] and RTT [ms] of paths without slots. Chosen here."""
_KEPT = {"queue": "keep", "in_flight": "deliver", "order": "clamp"}


JUDGED = 300
"""The first number of the paths that are judged: the learner was designed with lower ones."""


def leo_path(number: int, duration_s: float) -> Profile:
    """Return LEO path `number`, of any number: the ends repeat with another seed."""
    terminal, to = ENDS[number % len(ENDS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # seconds without a satellite
        return make_profile(terminal, to, start_unix_ns=START_UNIX_NS, duration_s=duration_s, seed=number + 1)


def other_path(name: str, duration_s: float) -> Profile:
    """Return the preset of this name."""
    return preset_profile(name, duration_s, start_unix_ns=START_UNIX_NS, name=name)


def irregular_path(number: int, duration_s: float) -> Profile:
    """Return a path like a LEO one whose reconfigurations come at random intervals."""
    rng = np.random.default_rng([21, number])
    at_s = np.cumsum(rng.uniform(*INTERVAL_S, int(duration_s / INTERVAL_S[0]) + 1))
    at_s = np.concatenate([[0.0], at_s[at_s < duration_s - 1.0]])
    sides = [
        Side(
            delay_s=Points.of(at_s, rng.uniform(0.015, 0.03, len(at_s))),
            capacity_bps=Points.of(at_s, rng.uniform(low, high, len(at_s))),
            queue={"bytes": round(high * 0.05 / 8)},
        )
        for low, high in ((5e6, 20e6), (20e6, 80e6))
    ]
    unknown: dict[str, Any] = dict.fromkeys(("from_satellite", "to_satellite", "from_gateway", "to_gateway"))
    events = [
        {
            "at_ns": round(at * 1e9),
            "interruption_ns": round(rng.uniform(*INTERRUPTION_S) * 1e9),
            "hop": 0,
            "kind": {"handover": {**unknown, "to_hop": 0}},
            "up": _KEPT,
            "down": _KEPT,
        }
        for at in at_s[1:].tolist()
    ]
    return single_hop_profile(
        name=f"irregular-{number}",
        hop="satellite",
        start_unix_ns=START_UNIX_NS,
        duration_s=duration_s,
        basis="one_way",
        provenance=Provenance("preset", "reconfigurations at random intervals"),
        up=sides[0],
        down=sides[1],
        events=events,
    )


def path_of(kind: str, number: int, duration_s: float) -> Profile:
    """Return a path of a kind: ``leo``, ``irregular``, ``fibre`` or ``geo`` (rate and RTT are drawn)."""
    if kind == "leo":
        return leo_path(number, duration_s)
    if kind == "irregular":
        return irregular_path(number, duration_s)
    rng = np.random.default_rng([22, number])
    rate, rtt = (rng.uniform(*limits) for limits in DRAWN[kind])
    return other_path(f"{kind}:down={rate:.0f}mbit,up={rate / 3:.0f}mbit,rtt={rtt:.0f}ms", duration_s)


def phase_error_s(at_s: float) -> float:
    """Return the difference of a time to the nearest edge of a slot of `leo_path` [s]."""
    return (at_s - SLOT_PHASE_S + SLOT_S / 2) % SLOT_S - SLOT_S / 2
