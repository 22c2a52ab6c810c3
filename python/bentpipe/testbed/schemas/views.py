"""Answers and requests of the interface for users (``/v1``)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from bentpipe.records import Items, Record
from bentpipe.testbed.schemas.desired import NodeSettings
from bentpipe.testbed.schemas.identifiers import Id, ImageReference, Label, Sha256
from bentpipe.testbed.schemas.node import NodeReport, NodeRole, NodeStatus

LARGEST_PAGE = 500
"""Most entries of one page of a list."""


class JoinTokenRequest(Record):
    """A request for a join token."""

    name: Label | None = None
    """Name that the node must have; default: any."""
    role: NodeRole | None = None
    """Role that it must have; default: any."""


class JoinToken(Record):
    """A join token, which is shown once."""

    token: str
    """It."""
    url: str
    """Address of the agents' port."""
    command: str
    """The whole command for the node."""
    expires_at_ms: int
    """When it expires."""


class TokenRequest(Record):
    """A request for a user's token."""

    name: str = Field(min_length=1, max_length=64)
    """Name of the user, who is made if unknown."""
    role: str
    """Role."""
    days: float = Field(default=365.0, gt=0, le=3660)
    """How long it is valid [days]."""


class NewToken(Record):
    """A user's token, which is shown once."""

    id: Id
    """Its id."""
    token: str
    """It."""
    name: str
    """Name of the user."""
    role: str
    """Role."""


class TokenView(Record):
    """A token without its text."""

    id: Id
    """Its id."""
    name: str
    """Name of the user."""
    role: str
    """Role."""
    expires_at_ms: int | None
    """When it expires; null: never."""
    revoked: bool
    """Whether it was revoked."""
    created_at_ms: int
    """When it was made."""


class UserView(Record):
    """A user."""

    id: Id
    """Id."""
    name: str
    """Name."""
    disabled: bool
    """Whether all tokens are refused."""
    created_at_ms: int
    """When it was made."""


class UserChange(Record):
    """A change of a user."""

    disabled: bool
    """Whether all tokens are refused."""


class CallerView(Record):
    """Who calls."""

    name: str
    """Name of the user."""
    role: str
    """Role of the token."""


class NodeView(Record):
    """A node, as everybody may see it."""

    id: Id
    """Id."""
    name: Label
    """Name."""
    role: NodeRole
    """Role."""
    owner: str | None
    """Name of its owner."""
    state: Literal["active", "revoked"]
    """Whether it may call."""
    online: bool
    """Whether it was seen in the last two minutes."""
    seen_at_ms: int | None
    """Its last heartbeat."""
    settings: NodeSettings
    """Settings."""
    report: NodeReport
    """Its description of itself."""
    status: NodeStatus
    """How it is."""
    version: int
    """Version of its wanted state."""


class NodeChange(Record):
    """New settings of a node; what is missing stays."""

    tags: Items[Label] | None = Field(default=None, max_length=50)
    """Tags."""
    paused: bool | None = None
    """Whether nothing starts."""
    draining: bool | None = None
    """Whether nothing starts and the node is about to leave."""
    scavenger: bool | None = None
    """Whether it yields to the household."""


class Interval(Record):
    """Free time of a node."""

    node: str
    """Name of the node."""
    from_at_ms: int
    """From."""
    to_at_ms: int
    """To."""
    lanes: int
    """Lanes that are free; all of them: also for exclusive runs."""


class ProfileView(Record):
    """A Profile for emulated paths."""

    name: str
    """Name."""
    sha256: Sha256
    """Hash of its file."""
    bytes: int
    """Size."""
    owner: str
    """Who brought it."""
    created_at_ms: int
    """When."""


class ImageRequest(Record):
    """A request to review an image."""

    reference: ImageReference
    """Image."""


class ImageReview(Record):
    """A review of an image."""

    reference: ImageReference
    """Image."""
    state: Literal["approved", "refused"]
    """Result."""
    reason: str = Field(default="", max_length=500)
    """Why."""


class ImageView(Record):
    """An image."""

    reference: ImageReference
    """Image."""
    state: Literal["requested", "approved", "refused"]
    """State."""
    reason: str
    """Why."""
    requested_by: str
    """Who asked for it."""
    reviewed_by: str | None
    """Who reviewed it."""


class AuditView(Record):
    """Who did what."""

    at_ms: int
    """When."""
    who: str
    """Who."""
    action: str
    """What."""
    subject: str
    """To what."""
    detail: dict[str, Any]
    """More."""


class Page(Record):
    """Base of a page of a list."""

    next: str | None = None
    """Value of ``after`` for the next page; null: this is the last."""


class NodePage(Page):
    """A page of nodes."""

    items: Items[NodeView]
    """Nodes."""


class TokenPage(Page):
    """A page of tokens."""

    items: Items[TokenView]
    """Tokens."""


class UserPage(Page):
    """A page of users."""

    items: Items[UserView]
    """Users."""


class ProfilePage(Page):
    """A page of Profiles."""

    items: Items[ProfileView]
    """Profiles."""


class ImagePage(Page):
    """A page of images."""

    items: Items[ImageView]
    """Images."""


class AvailabilityPage(Page):
    """Free time."""

    items: Items[Interval]
    """Intervals."""


class AuditPage(Page):
    """A page of the audit."""

    items: Items[AuditView]
    """Lines."""
