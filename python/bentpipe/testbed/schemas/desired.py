"""A node's whole wanted state: what the orchestrator wants of it in the next 48 hours.

An agent stores it and follows it without the orchestrator. It replaces the one before as a whole, so no message that is
lost leaves a node in a wrong state.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bentpipe.records import Items, Record
from bentpipe.testbed.schemas.experiment import (
    BookingClass,
    CaptureRule,
    KernelSettings,
    PathSelection,
    Program,
    ScavengerRule,
)
from bentpipe.testbed.schemas.identifiers import Id, ImageReference, Label, Sha256
from bentpipe.testbed.schemas.quantities import Budget

HORIZON_S = 48 * 3600.0
"""How far ahead a node knows its calendar [s]."""
End = Literal["client", "server"]
"""The end of a run at which a node stands."""


class Work(Record):
    """What a run does; many assignments share one."""

    experiment: Label
    """Name of the experiment."""
    owner: str
    """Its owner's name."""
    program: Program
    """Program."""
    path: PathSelection = PathSelection()
    """Path."""
    profile_sha256: Sha256 | None = None
    """Hash of the Profile's file; null: the uplink."""
    kernel: KernelSettings = KernelSettings()
    """Kernel settings."""
    capture: CaptureRule | None = None
    """Captures."""
    booking_class: BookingClass
    """Class."""
    duration_s: float
    """Longest time of a run [s]."""
    bytes_per_run: int
    """Bytes at which a run is ended."""
    scavenger: ScavengerRule = ScavengerRule()
    """Preemption."""
    catch_up: Literal["none", "last", "all"] = "last"
    """Runs that were due while the node was off."""


class Peer(Record):
    """The other end, and the key that both share."""

    node: Label
    """Name of the other node."""
    address: str | None = None
    """HOST:PORT of a server node; null: the peer is a client."""
    key: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Key of the sessions of a plan (HMAC-SHA256)."""


class Assignment(Record):
    """One end of a run in the calendar."""

    run: Id
    """Run."""
    plan: Id
    """Its plan: the experiment at this client node."""
    fence: int
    """Number of the assignment; reports with an older one are refused."""
    attempt: int = 1
    """1, and one more after each preemption."""
    end: End
    """This node's end."""
    work: Sha256
    """Key in `Desired.works`."""
    due_at_ms: int
    """When it was due."""
    start_at_ms: int
    """When it starts."""
    latest_start_at_ms: int
    """When it is missed."""
    peer: Peer | None = None
    """The other end."""


class ArmedTrigger(Record):
    """A trigger that the node watches, and the run that it starts."""

    trigger: Id
    """Trigger."""
    plan: Id
    """Plan."""
    fence: int
    """Number of the arming, for the runs that it starts."""
    expression: str
    """Condition."""
    window_s: float
    """Length of its windows [s]."""
    for_windows: int
    """Windows in sequence that it must hold for."""
    cooldown_s: float
    """Least time between firings [s]."""
    work: Sha256
    """Key in `Desired.works`."""
    peer: Peer | None = None
    """Server."""
    most_runs: int
    """Runs that it starts in all at this node."""
    started_runs: int = 0
    """Runs of it that the orchestrator knows."""
    bytes_budget: Budget | None = None
    """The experiment's budget at this node."""
    until_at_ms: int
    """When it is disarmed."""


class SessionGrant(Record):
    """At a server node: a plan whose client may come at any time, for a triggered or repeated run."""

    plan: Id
    """Plan."""
    fence: int
    """Number of the grant, for the server's end of its runs."""
    work: Sha256
    """Key in `Desired.works`."""
    peer: Peer
    """Client."""
    until_at_ms: int
    """When it ends."""
    is_armed: bool = False
    """Whether the client has a trigger armed: the server keeps a standby for its run."""


class NodeSettings(Record):
    """What users set of a node, below its host's policy."""

    name: Label
    """Its name."""
    tags: Items[Label] = ()
    """Its tags."""
    paused: bool = False
    """Whether nothing starts."""
    draining: bool = False
    """Whether nothing starts, and the node is about to leave."""
    scavenger: bool = True
    """Whether it yields to the household; the policy may turn that on, never off."""
    live: bool = False
    """Whether somebody looks at it: telemetry comes once a second."""


class Desired(Record):
    """The wanted state."""

    version: int
    """Grows with each change."""
    node: Id
    """Node."""
    issued_at_ms: int
    """When it was made."""
    until_at_ms: int
    """End of its calendar."""
    settings: NodeSettings
    """Settings."""
    works: dict[Sha256, Work] = Field(default_factory=dict)
    """What runs do, by hash."""
    assignments: Items[Assignment] = ()
    """The calendar, by start."""
    triggers: Items[ArmedTrigger] = ()
    """Triggers."""
    grants: Items[SessionGrant] = ()
    """Clients that may come."""
    images: Items[ImageReference] = ()
    """Images of `works` that the testbed reviewed and approved."""
