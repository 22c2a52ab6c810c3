"""Records that the dashboard's pages need beyond those of ``/v1``."""

from __future__ import annotations

from typing import Literal

from bentpipe.records import Items, Record
from bentpipe.testbed.schemas.experiment_views import Conflict, FiringView, TriggerView
from bentpipe.testbed.schemas.identifiers import Id


class BookingView(Record):
    """Time of a node for an end of a run."""

    node: str
    """Name of the node."""
    run: Id
    """Run."""
    end: Literal["client", "server"]
    """End of the run."""
    experiment: str
    """Name of the experiment."""
    owner: str
    """Its owner."""
    booking_class: str
    """Its class."""
    state: str
    """State of the run."""
    from_at_ms: int
    """From."""
    to_at_ms: int
    """To."""
    live: bool = True
    """Whether the node is booked; else the run has ended."""


class RunPlacing(Record):
    """Why a run is at its place in the calendar."""

    booking_class: str
    """Class of its experiment."""
    priority: int
    """Priority."""
    slip_s: float
    """How much later than due it may start [s]."""
    end_at_ms: int
    """When it ends at the latest."""
    changed_at_ms: int
    """When its state changed."""
    conflicts: Items[Conflict]
    """Bookings of its nodes at its due time, but for its own."""
    next_free_at_ms: int | None
    """First time from now on at which its node has a free lane for as long; null: none in a week."""


class TriggerDetail(Record):
    """A trigger with its last firings."""

    trigger: TriggerView
    """It."""
    absent: Items[str]
    """Signals of its condition that the node does not have."""
    firings: Items[FiringView]
    """Newest first."""
