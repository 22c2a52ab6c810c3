"""A node: what it is, what it can do, how it is."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bentpipe.records import Items, Record, Text
from bentpipe.testbed.schemas.policy import HostPolicy

NodeRole = Literal["client", "server"]
"""``client``: behind a terminal; ``server``: on the Internet, with an address that clients reach."""


class KernelAbilities(Record):
    """What the node's kernel can do: tried, not read."""

    controllers: Items[str] = ()
    """Congestion controllers."""
    qdiscs: Items[str] = ()
    """Queueing disciplines."""


class Place(Record):
    """A place, blurred."""

    latitude_deg: float = Field(ge=-90, le=90)
    """North of the equator [degrees]."""
    longitude_deg: float = Field(ge=-180, le=180)
    """East of Greenwich [degrees]."""


class NodeReport(Record):
    """What an agent says of its node when it joins, and when that changes."""

    agent_version: Text
    """Version of bentpipe."""
    platform: Text
    """Kernel and processor."""
    role: NodeRole
    """Its role."""
    control_address: str | None = Field(default=None, max_length=260)
    """HOST:PORT at which clients reach a server node (UDP and TCP)."""
    runners: Items[str] = ()
    """Runners that work here."""
    builtins: Items[str] = ()
    """Built-in experiments whose programs are here."""
    kernel: KernelAbilities = KernelAbilities()
    """The kernel."""
    signals: Items[str] = ()
    """Signals for triggers."""
    dish: Literal["none", "lost", "connected"] = "none"
    """The terminal."""
    place: Place | None = None
    """Its place, blurred as the policy says."""
    utc_offset_s: int | None = None
    """Its local time less UTC, for the policy's hours [s]; null: unknown."""
    policy: HostPolicy
    """The host's policy."""


class RunProgress(Record):
    """A run that is under way, in a heartbeat."""

    run: str
    """Its id."""
    state: str
    """Its state."""
    down_bps: float | None = None
    """Rate towards the node [bit/s]."""
    up_bps: float | None = None
    """Rate from the node [bit/s]."""


class NodeStatus(Record):
    """How a node is, in a heartbeat."""

    applied_version: int = 0
    """Version of the wanted state that it follows."""
    scavenger: Literal["off", "clear", "yielding", "quiet"] = "off"
    """``clear``: experiments may run; ``yielding``: the household uses its link; ``quiet``: waiting for quiet."""
    paused: bool = False
    """Whether its host has paused it."""
    dish: Literal["none", "lost", "connected"] = "none"
    """The terminal."""
    clock_offset_ms: float | None = None
    """Offset of its clock from the orchestrator's [ms]; null: unknown."""
    clock_error_ms: float | None = None
    """Bound of that offset's error [ms]."""
    spool_bytes: int = 0
    """Results that wait for their upload [bytes]."""
    disk_free_bytes: int = 0
    """Free disk [bytes]."""
    used_bytes: dict[str, int] = Field(default_factory=dict)
    """Bytes used of each of the policy's budgets (``2GB/day``)."""
    runs: Items[RunProgress] = ()
    """Runs under way."""
    notes: Items[str] = ()
    """Troubles: one line each."""
