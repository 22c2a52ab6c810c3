"""The record of an Experiment, which the simulator reads and `run.json` stores.

Times are integers of nanoseconds, as in the simulator, so that the record is exact (`docs/reference/experiment.md`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from bentpipe.experiments.apps import App, app_name
from bentpipe.experiments.schemes import EcnMode, ecn_of, flows_of
from bentpipe.profiles.queue_rules import QueueRule
from bentpipe.records import Items, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

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

HostTiming = Literal["linux-vm", "ideal"]
"""Model of the time that a simulated host's scheduler and processor take (`docs/concepts/transport.md`)."""
HOST_TIMINGS: tuple[HostTiming, ...] = ("linux-vm", "ideal")

ROLE = "path"
"""Role of the only Profile of a race."""


Count = Annotated[int, Field(ge=0, lt=2**64)]
"""Nanoseconds, bytes or bit/s, as the simulator has them."""

Size = Annotated[int, Field(ge=1, le=2**63 - 1)]
"""Bytes, at least one."""

PingSize = Annotated[int, Field(ge=28, le=1500)]
"""Bytes of an echo request: from the headers of IPv4 and ICMP alone to one packet."""


def _is_none(value: object) -> bool:
    return value is None


def _is_empty(value: Sequence[object]) -> bool:
    return not value


class ProfileRef(Record):
    """Reference to a Profile of the Experiment.

    Example:
        >>> ProfileRef(role="path", name="dumbbell", hash="00").role
        'path'
    """

    role: str
    """Role in the Experiment."""
    name: str
    """The Profile's own name."""
    hash: str
    """Its content hash: hex SHA-256."""
    network: Annotated[str | None, Field(exclude_if=_is_none)] = None
    """Content hash of the Network whose path it is; None: of none."""


class Host(Record):
    """Settings of a host that differ from the simulator's defaults (`docs/reference/experiment.md`); None: default."""

    rmem_max_bytes: Annotated[Size | None, Field(exclude_if=_is_none)] = None
    """Largest receive buffer, `tcp_rmem[2]`."""
    wmem_max_bytes: Annotated[Size | None, Field(exclude_if=_is_none)] = None
    """Largest send buffer, `tcp_wmem[2]`."""
    wmem_segment_bytes: Annotated[Size | None, Field(exclude_if=_is_none)] = None
    """Memory per segment of the window when the send buffer grows."""
    fq: Annotated[bool | None, Field(exclude_if=_is_none)] = None
    """Whether the qdisc paces every flow."""
    gro_segments: Annotated[Annotated[int, Field(ge=1, lt=2**32)] | None, Field(exclude_if=_is_none)] = None
    """Largest number of segments of one instant that TCP receives as one."""
    ecn: Annotated[EcnMode | None, Field(exclude_if=_is_none)] = None
    """Highest ECN mode that the host accepts."""
    rto_max_ms: Annotated[Annotated[int, Field(ge=1000, le=120_000)] | None, Field(exclude_if=_is_none)] = None
    """Largest retransmission time-out, `tcp_rto_max_ms` (Linux 6.15) [ms]."""
    frto: Annotated[bool | None, Field(exclude_if=_is_none)] = None
    """Whether new data decide if a time-out was spurious, `tcp_frto` (RFC 5682)."""


class Flow(Record):
    """One flow.

    Example:
        >>> Flow(controller="cubic", direction="up").to_dict()["app"]
        'bulk'
    """

    controller: str
    """Name in the registry, or of a Python controller."""
    direction: Direction = "down"
    """Direction of the data."""
    profile: str = ROLE
    """Role of its Profile."""
    options: Mapping[str, float | str] = Field(default_factory=dict)
    """Tunables of the controller: numbers (a switch is 0 or 1), or names of choices."""
    start_ns: Count = 0
    """Start [ns since the start of the run]."""
    stop_ns: Count | None = None
    """When it stops sending [ns since the start of the run]; None: at the end, or when its application is done."""
    app: App = "bulk"
    """Its application."""
    sender: str | None = None
    """Name of the sending host in the Experiment's `hosts`; None: the default host."""
    receiver: str | None = None
    """Likewise the receiving host."""
    ecn: Annotated[EcnMode, Field(exclude_if=lambda mode: mode == "off")] = "off"
    """Requested ECN mode."""


class TransferSizes(Record):
    """Sizes of transfers: a bounded Pareto distribution."""

    least_bytes: Size
    most_bytes: Size
    tail_index: float
    """The smaller it is, the larger the share of bytes in the largest transfers."""


class CrossTraffic(Record):
    """Cross traffic on a path: transfers that begin at random and end when complete.

    The transfers and their times depend only on the Experiment's seed.
    """

    offered_bps: Size
    """Mean rate of the bytes of new transfers [bit/s]."""
    sizes: TransferSizes
    """Sizes of the transfers."""
    controller: str = "cubic"
    """Controller of the transfers."""
    direction: Direction = "down"
    """Direction of their data."""
    profile: str = ROLE
    """Role of their Profile."""
    options: Mapping[str, float | str] = Field(default_factory=dict)
    """Tunables of the controller: numbers (a switch is 0 or 1), or names of choices."""
    sender: str | None = None
    """Name of the sending hosts; None: default hosts."""
    receiver: str | None = None
    """Likewise the receiving hosts."""


class Pings(Record):
    """Echo requests that the terminal sends at a constant rate, and their replies.

    Example:
        >>> Pings(every_ns=50_000_000).bytes
        84
    """

    every_ns: Annotated[int, Field(ge=1, lt=2**64)]
    """Time between two requests [ns]."""
    bytes: PingSize = 84
    """Size of a request and of its reply, with headers [bytes]; 84: the default of `ping`."""
    profile: str = ROLE
    """Role of their Profile."""
    start_ns: Count = 0
    """When the first is sent [ns since the start of the run]."""
    stop_ns: Count | None = None
    """Time from which none is sent [ns since the start of the run]; None: the end."""


class Recovery(Record):
    """A scheme of loss recovery inside the network.

    Example:
        >>> Recovery(scheme="satguard").options
        {}
    """

    scheme: str
    """Name in the registry."""
    options: Mapping[str, float | str] = Field(default_factory=dict)
    """Tunables of the scheme: numbers (a switch is 0 or 1), or names of choices."""


class Experiment(Record):
    """Flows on Profiles between hosts, with a seed: the record that the simulator reads and `run.json` stores.

    Example:
        >>> path = ProfileRef(role="path", name="dumbbell", hash="00")
        >>> Experiment(name="e", duration_ns=20 * NS_PER_S, profiles=[path], flows=[Flow(controller="bbr")]).warmup_ns
        5000000000
    """

    name: str
    """Name of the folder of its Runs."""
    seed: Count = 0
    """Seed of the run's own draws."""
    duration_ns: Count
    """Duration [ns]."""
    warmup_ns: Count = Field(default_factory=lambda fields: default_warmup_ns(fields["duration_ns"]))
    """Warm-up, excluded from steady-state figures [ns]; default: `default_warmup_ns`."""
    sample_step_ns: Count = SAMPLE_STEP_NS
    """Time between samples [ns]."""
    offset_ns: Count = 0
    """Start phase: the offset in the Profiles at which the run begins [ns]."""
    profiles: Items[ProfileRef]
    """The paths, by role."""
    host_timing: HostTiming = "linux-vm"
    """Model of the time that the simulated hosts take; a kernel takes its own."""
    hosts: Mapping[str, Host] = Field(default_factory=dict)
    """Hosts by name, with the settings that differ from the defaults."""
    flows: Items[Flow]
    """The flows."""
    cross: Annotated[Items[CrossTraffic], Field(exclude_if=_is_empty)] = ()
    """Cross traffic on the same paths."""
    queues: Annotated[Items[QueueRule], Field(exclude_if=_is_empty)] = ()
    """Rules that replace the Profiles' own queues; of several rules for one queue the last holds."""
    pings: Annotated[Items[Pings], Field(exclude_if=_is_empty)] = ()
    """Echo requests beside the flows."""
    test: Annotated[str | None, Field(exclude_if=_is_none)] = None
    """Name of the test of latency under load whose flows and pings these are; None: of none."""
    recovery: Annotated[Recovery | None, Field(exclude_if=_is_none)] = None
    """Loss recovery inside the network; None: none, and one-way delays of the flows are not recorded."""

    def to_json(self) -> str:
        """Return the record as JSON for the simulator."""
        return json.dumps(self.to_dict())


def default_warmup_ns(duration_ns: int) -> int:
    """Return the warm-up of a race of `duration_ns`: `WARMUP_NS`, or a quarter of a short race [ns]."""
    return min(WARMUP_NS, duration_ns // WARMUP_SHARE)


def for_scheme(
    scheme: str,
    direction: Direction,
    profiles: Sequence[ProfileRef],
    *,
    duration_ns: int,
    seed: int,
    offset_ns: int = 0,
    sample_step_ns: int = SAMPLE_STEP_NS,
    queues: tuple[QueueRule, ...] = (),
    cross: tuple[CrossTraffic, ...] = (),
    app: App = "bulk",
    host_timing: HostTiming = "linux-vm",
    name: str | None = None,
    recovery: Recovery | None = None,
) -> Experiment:
    """Make the Experiment of one scheme of a race: flows of one application that start together on each of the paths.

    `cross` is cross traffic; `name` is by default ``race-up`` or ``race-down``, with the application if it is not bulk.
    """
    flows = tuple(
        Flow(controller=controller, direction=direction, profile=profile.role, options=options, ecn=ecn, app=app)
        for profile in profiles
        for (controller, options), ecn in zip(flows_of(scheme), ecn_of(scheme), strict=True)
    )
    return Experiment(
        name=name or f"race-{direction}" + ("" if app == "bulk" else f"-{app_name(app)}"),
        seed=seed,
        duration_ns=duration_ns,
        sample_step_ns=sample_step_ns,
        offset_ns=offset_ns,
        profiles=tuple(profiles),
        host_timing=host_timing,
        flows=flows,
        queues=queues,
        cross=cross,
        recovery=recovery,
    )
