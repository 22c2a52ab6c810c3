"""Answers and requests about experiments and runs (``/v1``)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from bentpipe.records import Items, Record
from bentpipe.testbed.schemas.identifiers import FilePath, Id, Label
from bentpipe.testbed.schemas.states import RunState
from bentpipe.testbed.schemas.views import Page


class ExperimentSubmission(Record):
    """The file of an experiment."""

    text: str = Field(max_length=262_144)
    """YAML."""


class ExperimentView(Record):
    """An experiment."""

    id: Id
    """Id."""
    name: Label
    """Name."""
    owner: str
    """Name of its owner."""
    state: Literal["active", "ended", "canceled"]
    """State."""
    reason: str
    """Why it ended."""
    created_at_ms: int
    """When it was submitted."""
    until_at_ms: int
    """When it ends."""
    priority: int
    """Priority."""
    booking_class: str
    """Class."""
    nodes: Items[Label]
    """Names of its client nodes."""
    runs: dict[str, int]
    """Number of runs by state."""


class ExperimentDetail(ExperimentView):
    """An experiment with its file."""

    text: str
    """The file."""


class Extension(Record):
    """More time or runs for an experiment."""

    until_at_ms: int | None = None
    """When it ends."""
    runs: int | None = Field(default=None, ge=1, le=1_000_000)
    """Runs at each node."""


class RunEndView(Record):
    """One end of a run."""

    end: Literal["client", "server"]
    """Which."""
    node: str
    """Name of the node."""
    state: RunState
    """State."""
    reason: str
    """Why."""
    files: Items[FilePath]
    """Committed files."""


class RunView(Record):
    """A run."""

    id: Id
    """Id."""
    experiment: Id
    """Experiment."""
    experiment_name: str
    """Its name."""
    plan: Id
    """Plan."""
    node: str
    """Name of the client node."""
    server: str | None
    """Name of the server node."""
    due_at_ms: int
    """When it was due."""
    start_at_ms: int
    """When it starts, or started."""
    changed_at_ms: int
    """When its state last changed."""
    attempt: int
    """Attempt."""
    cause: Literal["schedule", "trigger", "retry"]
    """Cause."""
    state: RunState
    """State."""
    reason: str
    """Why."""
    up_bytes: int
    """Bytes sent."""
    down_bytes: int
    """Bytes received."""
    location: str | None
    """Folder of its result in the store."""


class EventView(Record):
    """What an agent said."""

    node: str
    """Name of the node."""
    at_ms: int
    """When it happened."""
    received_at_ms: int
    """When it came."""
    kind: str
    """Kind."""
    body: dict[str, Any]
    """It."""


class RunDetail(RunView):
    """A run with its ends and events."""

    ends: Items[RunEndView]
    """Its ends."""
    events: Items[EventView]
    """What agents said of it."""


class Conflict(Record):
    """A booking that is in the way."""

    node: str
    """Name of the node."""
    experiment: str
    """Name of the experiment."""
    owner: str
    """Its owner."""
    run: Id
    """Run."""
    from_at_ms: int
    """From."""
    to_at_ms: int
    """To."""
    priority: int
    """Priority."""


class PlannedStart(Record):
    """A start of an experiment, as it would be planned."""

    node: str
    """Name of the client node."""
    server: str | None
    """Name of the server node."""
    due_at_ms: int
    """When it is due."""
    start_at_ms: int | None
    """When it would start; null: no free slot."""
    conflicts: Items[Conflict]
    """What is in the way at the due time."""
    displaces: Items[Conflict]
    """Runs of lower priority that it would displace."""
    next_free_at_ms: int | None
    """First free slot from the due time on; null: none in a week."""
    reason: str = ""
    """Why it would not start."""


class NodeVerdict(Record):
    """Whether a node fits."""

    node: str
    """Its name."""
    fits: bool
    """Whether it does."""
    reasons: Items[str]
    """Why not."""


class DryRun(Record):
    """What a submission would do."""

    name: Label
    """Name."""
    nodes: Items[str]
    """Client nodes that would be chosen."""
    servers: dict[str, str]
    """Server node of each client."""
    not_fitting: Items[NodeVerdict]
    """Nodes that were considered and do not fit."""
    starts: Items[PlannedStart]
    """The first ten starts."""
    bytes_per_run: int
    """Bytes at which a run is ended."""
    expected_bytes_per_run: int
    """Bytes that a run is expected to use."""
    runs_in_48_h: int
    """Runs of all nodes in the next 48 hours."""
    bytes_in_48_h: int
    """Bytes that they are expected to use."""
    trigger: str | None
    """Condition that starts runs; null: they are planned."""


class TriggerView(Record):
    """A trigger."""

    id: Id
    """Id."""
    plan: Id
    """Plan."""
    experiment: str
    """Name of the experiment."""
    node: str
    """Name of the node."""
    expression: str
    """Condition."""
    state: Literal["armed", "ended"]
    """State."""
    firings: int
    """How often it fired."""


class FiringView(Record):
    """A firing."""

    id: Id
    """Id."""
    trigger: Id
    """Trigger."""
    window_end_at_ms: int
    """End of the window."""
    values: dict[str, float]
    """Signals in the window."""
    run: Id | None
    """Run that it started."""
    reason: str
    """Why it started none."""


class ExperimentPage(Page):
    """A page of experiments."""

    items: Items[ExperimentView]
    """Experiments."""


class RunPage(Page):
    """A page of runs."""

    items: Items[RunView]
    """Runs."""


class TriggerPage(Page):
    """A page of triggers."""

    items: Items[TriggerView]
    """Triggers."""


class FiringPage(Page):
    """A page of firings."""

    items: Items[FiringView]
    """Firings."""


class NodeEvents(Record):
    """Events of a node."""

    items: Items[EventView]
    """Events, newest first."""
