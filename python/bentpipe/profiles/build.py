"""Profiles from arrays: what presets and converters have in common."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bentpipe import _native
from bentpipe._native import Profile
from bentpipe.errors import UserError
from bentpipe.profiles.table import DIRECTIONS, KINDS
from bentpipe.scenarios.units import QueueLimit

#: Longest Profile made or read here [s]: 31 days. Chosen here, to catch slips of the keyboard; a delay every 10 ms
#: for that long is 270 million rows.
MAX_DURATION_S = 31 * 86_400.0

#: Limit of a queue that a measurement says nothing about. 1000 packets is what Linux gives a network device
#: (`txqueuelen`).
DEFAULT_QUEUE = "1000packets"


@dataclass(frozen=True)
class Points:
    """One series: times [s since the start], values (unit by kind) and whether each is known until the next."""

    t_s: NDArray[np.float64]
    value: NDArray[np.float64]
    valid: NDArray[np.bool_]

    @classmethod
    def constant(cls, value: float) -> Points:
        """`value` for ever."""
        return cls(np.zeros(1), np.full(1, value, np.float64), np.ones(1, bool))

    @classmethod
    def of(cls, t_s: ArrayLike, value: ArrayLike, valid: ArrayLike | None = None) -> Points:
        """Points from anything array-like; `valid` is everywhere true if not given."""
        times = np.ascontiguousarray(t_s, np.float64)
        known = np.ones(times.shape, bool) if valid is None else np.ascontiguousarray(valid, bool)
        return cls(times, np.ascontiguousarray(value, np.float64), known)


@dataclass(frozen=True)
class Side:
    """One direction of a hop.

    Attributes:
        delay_s: One-way delay [s].
        capacity_bps: Capacity [bit/s]; None: never the bottleneck.
        loss_probability: Probability that a packet passing at this moment is lost; None: never.
        queue: Limit as in the metadata: ``{"bytes": n}``, ``{"packets": n}`` or ``{"time_ns": n}``.
    """

    delay_s: Points
    capacity_bps: Points | None = None
    loss_probability: Points | None = None
    queue: Mapping[str, int] = field(default_factory=lambda: {"packets": 1000})

    def series(self) -> list[tuple[str, Points]]:
        """Kind and points of every series there is."""
        kinds = [
            ("delay_s", self.delay_s),
            ("capacity_bps", self.capacity_bps),
            ("loss_probability", self.loss_probability),
        ]
        return [(kind, points) for kind, points in kinds if points is not None]


@dataclass(frozen=True)
class Provenance:
    """Where a Profile comes from; see ``docs/reference/profile-format.md``."""

    kind: Literal["preset", "measured"]
    description: str
    includes: Sequence[str] = ()
    recipe: Any = None

    def as_json(self) -> dict[str, Any]:
        """As in the metadata. Nothing is drawn here, so there is no seed."""
        return {
            "kind": self.kind,
            "description": self.description,
            "made_by": f"bentpipe {_native.__version__}",
            "seed": None,
            "includes": list(self.includes),
            "recipe": self.recipe,
        }


def single_hop_profile(
    *,
    name: str,
    hop: str,
    start_unix_ns: int,
    duration_s: float,
    basis: Literal["one_way", "half_rtt"],
    provenance: Provenance,
    up: Side,
    down: Side,
    events: Sequence[Mapping[str, Any]] = (),
) -> Profile:
    """A path of one hop in use all the time; `events` as in the metadata.

    Raises:
        UserError: What the Profile refuses (times that do not increase, negative values, …).
    """
    queues = {
        f"{direction}_queue": {"discipline": "drop_tail", "limit": dict(side.queue)}
        for direction, side in zip(DIRECTIONS, (up, down), strict=True)
    }
    metadata = {
        "format": 1,
        "name": name,
        "start_unix_ns": start_unix_ns,
        "duration_ns": duration_to_ns(duration_s),
        "basis": basis,
        "provenance": provenance.as_json(),
        "hops": [{"name": hop, "shared_id": None, **queues}],
        "routes": [{"at_ns": 0, "hops": [0]}],
        "events": list(events),
    }
    rows = [(d, kind, points) for d, side in enumerate((up, down)) for kind, points in side.series()]
    lengths = [len(points.t_s) for _, _, points in rows]
    return Profile.from_table(
        json.dumps(metadata),
        np.concatenate([points.t_s for _, _, points in rows]),
        np.zeros(sum(lengths), np.uint32),
        np.repeat([d for d, _, _ in rows], lengths).astype(np.uint8),
        np.repeat([KINDS.index(kind) for _, kind, _ in rows], lengths).astype(np.uint8),
        np.concatenate([points.value for _, _, points in rows]),
        np.concatenate([points.valid for _, _, points in rows]),
    )


def duration_to_ns(duration_s: float, what: str = "duration") -> int:
    """Nanoseconds of a duration. Raises `UserError` unless it is above zero and at most `MAX_DURATION_S`."""
    if not math.isfinite(duration_s) or duration_s <= 0:
        raise UserError(f"{what}: {duration_s:g} s; wanted more than 0")
    if duration_s > MAX_DURATION_S:
        raise UserError(f"{what}: {duration_s:g} s is too long; wanted at most {MAX_DURATION_S:g} s (31 days)")
    return max(1, round(duration_s * 1e9))


def queue_limit(limit: QueueLimit, rate_bps: int | None = None, rtt_ns: int | None = None) -> dict[str, int]:
    """`limit` as in the metadata; ``bdp`` needs the rate and the RTT of its direction.

    Raises:
        UserError: ``bdp`` where rate and RTT vary.
    """
    if limit.kind == "bdp":
        if rate_bps is None or rtt_ns is None:
            raise UserError("queue: a limit in bdp needs a fixed rate and RTT; give bytes, packets or a time")
        return {"bytes": limit.bdp_bytes(rate_bps, rtt_ns)}
    return {{"bytes": "bytes", "packets": "packets", "time": "time_ns"}[limit.kind]: int(limit.amount)}
