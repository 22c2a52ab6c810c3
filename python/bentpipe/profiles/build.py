"""Build single-hop Profiles from arrays, for presets and converters."""

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

#: Longest Profile made or read here [s]: 31 days. Chosen here, to catch typing errors; a delay every 10 ms
#: for that long is 270 million rows.
MAX_DURATION_S = 31 * 86_400.0

#: Default queue limit where a measurement does not give one. 1000 packets is what Linux gives a network device
#: (`txqueuelen`).
DEFAULT_QUEUE = "1000packets"


@dataclass(frozen=True)
class Points:
    """A series of points.

    Attributes:
        t_s: Times [s since the start].
        value: Values; the unit depends on the kind of the series.
        valid: Whether the value is known from this point to the next.
    """

    t_s: NDArray[np.float64]
    value: NDArray[np.float64]
    valid: NDArray[np.bool_]

    @classmethod
    def constant(cls, value: float) -> Points:
        """Return a series with one value for all times."""
        return cls(np.zeros(1), np.full(1, value, np.float64), np.ones(1, bool))

    @classmethod
    def of(cls, t_s: ArrayLike, value: ArrayLike, valid: ArrayLike | None = None) -> Points:
        """Return a series from array-likes; `valid` defaults to true everywhere."""
        times = np.ascontiguousarray(t_s, np.float64)
        known = np.ones(times.shape, bool) if valid is None else np.ascontiguousarray(valid, bool)
        return cls(times, np.ascontiguousarray(value, np.float64), known)


@dataclass(frozen=True)
class Side:
    """One direction of a hop.

    Attributes:
        delay_s: One-way delay [s].
        capacity_bps: Capacity [bit/s]; None: no limit.
        loss_probability: Probability that a packet which passes at this time is lost; None: no loss.
        queue: Queue limit as in the metadata: ``{"bytes": n}``, ``{"packets": n}`` or ``{"time_ns": n}``.
    """

    delay_s: Points
    capacity_bps: Points | None = None
    loss_probability: Points | None = None
    queue: Mapping[str, int] = field(default_factory=lambda: {"packets": 1000})

    def series(self) -> list[tuple[str, Points]]:
        """Return kind and points of each series that is set."""
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
        """Return the entry of the metadata. The seed is None, because nothing is random here."""
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
    """Build a Profile with one hop that is in use all the time; `events` as in the metadata.

    Raises:
        UserError: The series are invalid (times that do not increase, negative values, …).
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


def duration_to_ns(duration_s: float, label: str = "duration") -> int:
    """Convert a duration to nanoseconds.

    Raises:
        UserError: It is not above zero, or longer than `MAX_DURATION_S`; the message begins with `label`.
    """
    if not math.isfinite(duration_s) or duration_s <= 0:
        raise UserError(f"{duration_s:g} s", where=label, expected="more than 0")
    if duration_s > MAX_DURATION_S:
        raise UserError(
            f"{duration_s:g} s is too long", where=label, expected=f"at most {MAX_DURATION_S:g} s (31 days)"
        )
    return max(1, round(duration_s * 1e9))


def queue_limit(limit: QueueLimit, rate_bps: int | None = None, rtt_ns: int | None = None) -> dict[str, int]:
    """Return a queue limit as in the metadata; ``bdp`` needs the rate and the RTT of its direction.

    Raises:
        UserError: The limit is in ``bdp``, and rate or RTT is not given.
    """
    if limit.kind == "bdp":
        if rate_bps is None or rtt_ns is None:
            raise UserError("a limit in bdp needs a fixed rate and RTT; give bytes, packets or a time", where="queue")
        return {"bytes": limit.bdp_bytes(rate_bps, rtt_ns)}
    return {{"bytes": "bytes", "packets": "packets", "time": "time_ns"}[limit.kind]: int(limit.amount)}
