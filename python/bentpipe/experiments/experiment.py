"""The record of an Experiment, which the simulator reads and `run.json` stores.

Times are integers of nanoseconds, as in the simulator, so that the record is exact (`docs/reference/experiment.md`).
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from bentpipe.experiments.schemes import ecn_of, flows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

Direction = Literal["up", "down"]
DIRECTIONS: tuple[Direction, ...] = ("up", "down")

NS_PER_S = 1_000_000_000

SAMPLE_STEP_NS = 100_000_000
"""Interval between samples [ns]: DESIGN's default of 100 ms, a few RTTs of a LEO path."""

WARMUP_NS = 10 * NS_PER_S
"""Warm-up, excluded from steady-state figures [ns]. Chosen here: slow start from 10 segments to 300 Mbit/s at 350 ms
takes ten RTTs (3.5 s), and BBR needs as long again to drain its queue."""

WARMUP_SHARE = 4
"""The warm-up of a short race is at most one fourth of it. Chosen here, so that a steady part remains."""

ROLE = "path"
"""Role of the only Profile of a race."""


@dataclass(frozen=True)
class ProfileRef:
    """Reference to a Profile of the Experiment: its role, its own name and its content hash (hex SHA-256)."""

    role: str
    name: str
    hash: str


@dataclass(frozen=True)
class Flow:
    """One flow; `start_ns` and `stop_ns` are relative to the run's start.

    `application` is ``"bulk"``, ``{"bytes": n}`` or ``{"paced": {"write_bytes": n, "every_ns": n}}``. `sender` and
    `receiver` name entries of the Experiment's hosts; None: default hosts. `ecn` is the requested ECN mode: ``off``,
    ``classic`` (RFC 3168) or ``accurate`` (RFC 9768).
    """

    controller: str
    direction: Direction = "down"
    profile: str = ROLE
    options: Mapping[str, float] = field(default_factory=dict)
    start_ns: int = 0
    stop_ns: int | None = None
    application: str | Mapping[str, Any] = "bulk"
    sender: str | None = None
    receiver: str | None = None
    ecn: str = "off"


@dataclass(frozen=True)
class CrossTraffic:
    """Cross traffic on a path: transfers that begin at random, `offered_bps` on average, and end when complete.

    `sizes` is ``{"least_bytes": n, "most_bytes": n, "tail_index": α}``: Pareto between two bounds. `sender` and
    `receiver` are as in `Flow`. The transfers and their times depend only on the Experiment's seed.
    """

    offered_bps: int
    sizes: Mapping[str, float]
    controller: str = "cubic"
    direction: Direction = "down"
    profile: str = ROLE
    options: Mapping[str, float] = field(default_factory=dict)
    sender: str | None = None
    receiver: str | None = None


@dataclass(frozen=True)
class Experiment:
    """Flows on Profiles between hosts, with a seed.

    `hosts` maps a name to settings that differ from the defaults: `rmem_max_bytes`, `wmem_max_bytes`,
    `wmem_segment_bytes`, `fq`, `gro_segments`, `ecn`. `queues` are rules that replace the Profiles' own queues, made by
    `bentpipe.profiles.queues.parse_queue`. `offset_ns` is the start phase: the offset in the Profiles at which the run
    begins. `warmup_ns` is excluded from steady-state figures; None is replaced by `default_warmup_ns` of the duration.
    """

    name: str
    seed: int
    duration_ns: int
    profiles: tuple[ProfileRef, ...]
    flows: tuple[Flow, ...]
    warmup_ns: int = None  # type: ignore[assignment]  # an int from __post_init__ on
    sample_step_ns: int = SAMPLE_STEP_NS
    offset_ns: int = 0
    hosts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    queues: tuple[Mapping[str, Any], ...] = ()
    cross: tuple[CrossTraffic, ...] = ()

    def __post_init__(self) -> None:
        """Fill in the default warm-up."""
        if self.warmup_ns is None:
            object.__setattr__(self, "warmup_ns", default_warmup_ns(self.duration_ns))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data in the order of the simulator's record, without fields that have newer defaults."""
        order = (
            "name",
            "seed",
            "duration_ns",
            "warmup_ns",
            "sample_step_ns",
            "offset_ns",
            "profiles",
            "hosts",
            "flows",
            *(("cross",) if self.cross else ()),
        )
        plain = dataclasses.asdict(self)
        record = {key: list(plain[key]) if isinstance(plain[key], tuple) else plain[key] for key in order}
        for flow in record["flows"]:
            if flow["ecn"] == "off":
                del flow["ecn"]
        if self.queues:
            record["queues"] = [dict(rule) for rule in self.queues]
        return record

    def to_json(self) -> str:
        """Return the record as JSON for the simulator."""
        return json.dumps(self.to_dict())


def default_warmup_ns(duration_ns: int) -> int:
    """Return the warm-up of a race of `duration_ns`: `WARMUP_NS`, or a quarter of a short race [ns]."""
    return min(WARMUP_NS, duration_ns // WARMUP_SHARE)


def for_scheme(
    scheme: str,
    direction: Direction,
    profile: ProfileRef,
    *,
    duration_ns: int,
    seed: int,
    offset_ns: int = 0,
    sample_step_ns: int = SAMPLE_STEP_NS,
    queues: tuple[Mapping[str, Any], ...] = (),
    cross: tuple[CrossTraffic, ...] = (),
    name: str | None = None,
) -> Experiment:
    """Make the Experiment of one scheme of a race: bulk flows that start together and share the path to the end.

    `cross` is cross traffic; `name` is by default ``race-up`` or ``race-down``.
    """
    flows = tuple(
        Flow(controller, direction=direction, profile=profile.role, options=options, ecn=ecn)
        for (controller, options), ecn in zip(flows_of(scheme), ecn_of(scheme), strict=True)
    )
    return Experiment(
        name=name or f"race-{direction}",
        seed=seed,
        duration_ns=duration_ns,
        sample_step_ns=sample_step_ns,
        offset_ns=offset_ns,
        profiles=(profile,),
        flows=flows,
        queues=queues,
        cross=cross,
    )
