"""The Experiment: what is done on the path. The same record that the simulator reads and that `run.json` keeps.

Times are integers of nanoseconds, as in the simulator, so that a document says exactly what was run
(`docs/reference/experiment.md`).
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
"""Time between samples [ns]: DESIGN's default of 100 ms, a few RTTs of a LEO path."""

WARMUP_NS = 10 * NS_PER_S
"""Left out of steady-state figures [ns]. Chosen here: slow start from 10 segments to 300 Mbit/s at 350 ms takes ten
RTTs (3.5 s), and BBR needs as long again to drain what it queued."""

WARMUP_SHARE = 4
"""A short race gives up at most a quarter of itself to the warm-up. Chosen here, so that something steady is left."""

ROLE = "path"
"""What a race's Experiment calls its only Profile."""


@dataclass(frozen=True)
class ProfileRef:
    """A Profile that the Experiment runs on: its role, its own name and its content hash (hex SHA-256)."""

    role: str
    name: str
    hash: str


@dataclass(frozen=True)
class Flow:
    """One flow; `start_ns` and `stop_ns` count from the run's beginning.

    `application` is ``"bulk"``, ``{"bytes": n}`` or ``{"paced": {"write_bytes": n, "every_ns": n}}``. `sender` and
    `receiver` name entries of the Experiment's hosts; None stands for the defaults. `ecn` is what it asks for: ``off``,
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
    """cross traffic on a path: they begin at random, `offered_bps` of them on average, and end when done.

    `sizes` is ``{"least_bytes": n, "most_bytes": n, "tail_index": α}``: Pareto between two bounds. `sender` and
    `receiver` as of a `Flow`. Which transfers come, and when, follows from the Experiment's seed alone.
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
    """What is done, on which Profiles, by which hosts, with which seed.

    `hosts` maps a name to settings that differ from the defaults: `rmem_max_bytes`, `wmem_max_bytes`,
    `wmem_segment_bytes`, `fq`, `gro_segments`, `ecn`. `queues` are rules for other queues than the Profiles' own, as
    `bentpipe.profiles.queues.parse_queue` makes them. `offset_ns` is the start phase: where in the Profiles the run
    begins. `warmup_ns` is left out of steady figures; None stands for `default_warmup_ns` of the duration, as in a race
    and an Experiment's file, and is replaced by it.
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
        """Plain data in the order of the simulator's record; what asks for nothing new is left out of it."""
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
        """As the simulator reads it."""
        return json.dumps(self.to_dict())


def default_warmup_ns(duration_ns: int) -> int:
    """The warm-up of a race that lasts `duration_ns`: `WARMUP_NS`, or a quarter of a short race [ns]."""
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
    """The Experiment behind one scheme of a race: bulk flows that start together and share the path to the end.

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
