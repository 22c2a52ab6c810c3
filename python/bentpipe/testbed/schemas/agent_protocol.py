"""Requests and answers between agents and orchestrator. Agents dial out; nothing listens at a client node.

=================================================  ===================================================================
``POST /agent/v1/enrol``                           `EnrolRequest` → `EnrolAnswer`, without a certificate
``GET  /agent/v1/authority``                       certificate of the authority (PEM), without a certificate
``POST /agent/v1/renew``                           `RenewRequest` → `RenewAnswer`
``POST /agent/v1/report``                          `NodeReport` → 204
``POST /agent/v1/heartbeat``                       `Heartbeat` → `HeartbeatAnswer`; every 15 s
``GET /agent/v1/stream``                           server-sent events ``version`` with a number as data
``GET /agent/v1/desired?since=N``                  `Desired`; 204: still version N
``POST /agent/v1/events``                          `EventBatch` → `EventAnswer`
``POST /agent/v1/telemetry``                       `TelemetryBatch` → 204
``GET /agent/v1/files/{sha256}``                   a Profile's file
``HEAD /agent/v1/runs/{run}/{end}/files/{path}``   ``Upload-Offset``: bytes that have arrived
``PUT  /agent/v1/runs/{run}/{end}/files/{path}``   ``?offset=N``: the bytes from there; 409 if N is not the offset
``POST /agent/v1/runs/{run}/{end}/commit``         `CommitRequest` → `CommitAnswer`
=================================================  ===================================================================

Errors are RFC 9457 (`problem`). A stale fence is 409 with code ``stale_fence``: the agent stops that run.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bentpipe.records import Items, Record
from bentpipe.testbed.schemas.desired import End
from bentpipe.testbed.schemas.identifiers import FilePath, Id, Label, Sha256
from bentpipe.testbed.schemas.node import NodeReport, NodeStatus
from bentpipe.testbed.schemas.states import RunState

HEARTBEAT_S = 15.0
"""Time between two heartbeats [s]."""
LOST_S = 120.0
"""Silence after which a node is lost [s]: eight heartbeats."""
CERTIFICATE_DAYS = 30
"""How long a node's certificate is valid [days]; it is renewed in the last third."""
LARGEST_PART = 4 * 1024 * 1024
"""Most bytes of one ``PUT``."""
MOST_FILES = 500
"""Most files of one end of a run."""
LARGEST_RESULT = 4 * 10**9
"""Most bytes of one end of a run."""
MOST_EVENTS = 500
"""Most events of one batch."""


class EnrolRequest(Record):
    """A request to join."""

    token: str = Field(min_length=20, max_length=400)
    """Join token."""
    name: Label
    """Name of the node."""
    is_default_name: bool = False
    """Whether the host chose no name: then a token with a name decides."""
    csr_pem: str = Field(max_length=8192)
    """Certificate signing request."""
    report: NodeReport
    """The node."""


class EnrolAnswer(Record):
    """A node's identity."""

    node: Id
    """Its id."""
    name: Label
    """Its name."""
    certificate_pem: str
    """Its certificate."""
    authority_pem: str
    """Certificate of the authority."""


class RenewRequest(Record):
    """A request for a new certificate for the same or another key."""

    csr_pem: str = Field(max_length=8192)
    """Certificate signing request."""


class RenewAnswer(Record):
    """A new certificate."""

    certificate_pem: str
    """It."""


class Heartbeat(Record):
    """A sign of life, with the node's times of the exchange before it."""

    boot_id: Id
    """Id of the agent's start; another one: the agent was started anew."""
    sent_at_ms: float
    """When it is sent, by the node's clock (its time 1) [ms since 1970]."""
    status: NodeStatus
    """How the node is."""


class HeartbeatAnswer(Record):
    """The orchestrator's two times, and whether there is news."""

    received_at_ms: float
    """When the request came (time 2), by the orchestrator's clock [ms since 1970]."""
    sent_at_ms: float
    """When the answer goes (time 3) [ms since 1970]."""
    version: int
    """Version of the wanted state."""
    next_seq: int
    """Number of the first event of this boot that has not arrived."""


class StateEvent(Record):
    """An end of a run came into a state."""

    kind: Literal["state"] = "state"
    run: Id
    """Run."""
    end: End
    """This end."""
    fence: int
    """Fence of the assignment."""
    state: RunState
    """New state."""
    reason: str = Field(default="", max_length=500)
    """Why: a sentence; needed in a final state other than ``done``."""
    up_bytes: int | None = None
    """Bytes sent so far."""
    down_bytes: int | None = None
    """Bytes received so far."""


class RunEvent(Record):
    """The node made a run itself: a trigger fired, or a preempted run is tried again without the orchestrator."""

    kind: Literal["run"] = "run"
    run: Id
    """``derived_id("run", plan, firing)``, or ``derived_id("retry", preempted run)``."""
    plan: Id
    """Its plan."""
    fence: int
    """Fence of the arming or of the run that it repeats."""
    cause: Literal["trigger", "retry"]
    """Cause."""
    firing: Id | None = None
    """Firing."""
    attempt: int = Field(default=1, ge=1, le=1000)
    """Attempt."""
    due_at_ms: int
    """When it was due: the end of the window, or the due time of the first attempt."""
    start_at_ms: int
    """When it starts."""


class FiringEvent(Record):
    """A trigger fired."""

    kind: Literal["firing"] = "firing"
    firing: Id
    """``derived_id("firing", trigger, name of the node, window end [ms])``."""
    trigger: Id
    """Trigger."""
    window_end_at_ms: int
    """End of the window."""
    values: dict[str, float]
    """Signals in that window."""
    run: Id | None = None
    """The run that it starts; null: none."""
    reason: str = Field(default="", max_length=500)
    """Why it starts none."""


WITHOUT_TERMINAL = "no terminal/:"
"""Begin of the note of a run whose result has no telemetry of the terminal; the reason follows."""


class NoteEvent(Record):
    """Something that people should see."""

    kind: Literal["note"] = "note"
    topic: Literal["policy", "scavenger", "dish", "clock", "disk", "agent", "kernel"]
    """Subject."""
    text: str = Field(max_length=500)
    """One line."""
    run: Id | None = None
    """Run that it is about."""


class Event(Record):
    """An event, numbered by the agent since its start."""

    seq: int = Field(ge=1)
    """Number: 1, 2, …"""
    at_ms: float
    """When, by the orchestrator's clock as the node knows it [ms since 1970]."""
    body: StateEvent | RunEvent | FiringEvent | NoteEvent = Field(discriminator="kind")
    """It."""


class EventBatch(Record):
    """Events in sequence."""

    boot_id: Id
    """Id of the agent's start."""
    events: Items[Event]
    """Events."""


class EventAnswer(Record):
    """What became of a batch."""

    next_seq: int
    """Number of the first event that has not arrived."""
    stale: Items[Id] = ()
    """Runs whose fence is stale: the agent stops them."""


class TelemetryBatch(Record):
    """Newest samples of the terminal and the node's interfaces, for live pages."""

    columns: Items[str]
    """Names of the columns, the first ``t_unix_ms``; with units."""
    rows: Items[Items[float | None]] = Field(max_length=1000)
    """Rows."""


class CommittedFile(Record):
    """A file of a result."""

    path: FilePath
    """Path in the result."""
    bytes: int = Field(ge=0, le=LARGEST_RESULT)
    """Size."""
    sha256: Sha256
    """Hash."""


class CommitRequest(Record):
    """All files of an end of a run have been sent."""

    fence: int
    """Fence of the assignment."""
    state: Literal["done", "failed", "preempted", "canceled", "missed"]
    """Final state of this end."""
    reason: str = Field(default="", max_length=500)
    """Why, if not ``done``."""
    files: Items[CommittedFile]
    """Files."""


class CommitAnswer(Record):
    """The result is stored."""

    location: str
    """Folder in the store."""
