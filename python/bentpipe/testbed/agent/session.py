"""Messages between the two ends of a run, over UDP: JSON with an HMAC by the plan's key.

The client repeats ``hello`` until the server says ``ready``, ``busy`` or ``refused``. From ``start`` on it sends a
``beat`` every 100 ms; 500 ms after the last one the server ends its program. ``bye`` ends it at once. Every message
has a number that grows, so an old one that comes once more is left out.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Literal

from pydantic import Field, TypeAdapter, ValidationError

from bentpipe.records import Record
from bentpipe.testbed.schemas.identifiers import Id

BEAT_S = 0.1
"""Time between two beats [s]."""
SILENCE_S = 0.5
"""Silence of the client after which the server ends its program [s]."""
LARGEST_MESSAGE = 1200
"""Largest message [bytes]: it fits into one packet."""

Kind = Literal["hello", "preparing", "ready", "busy", "refused", "start", "started", "beat", "bye", "ended"]


class Message(Record):
    """A message."""

    kind: Kind
    """Kind."""
    run: Id
    """Run."""
    plan: Id
    """Plan, whose key signs."""
    number: int = Field(ge=0, lt=2**63)
    """Grows with each message of a side."""
    fence: int = 0
    """Fence of the client's end."""
    attempt: int = 1
    """Attempt."""
    due_at_ms: int = 0
    """When the run was due."""
    ports: dict[str, int] = Field(default_factory=dict)
    """In ``ready``: ports of the server's programs."""
    until_at_ms: int = 0
    """In ``busy``: until when."""
    reason: str = Field(default="", max_length=300)
    """In ``refused``, ``bye`` and ``ended``: why."""


_MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)


class RefusedError(Exception):
    """The server does not take part.

    Attributes:
        reason: Why.
        until_at_ms: When to ask again; 0: not at all.
    """

    def __init__(self, reason: str, until_at_ms: int = 0) -> None:
        """Keep the reason."""
        super().__init__(reason)
        self.reason, self.until_at_ms = reason, until_at_ms


def seal(message: Message, key: str, side: Literal["c", "s"]) -> bytes:
    """Return a signed message."""
    body = message.model_dump_json(exclude_defaults=True).encode()
    return _mac(body, key, side).encode() + body


def peek(packet: bytes) -> Message | None:
    """Return a message whose signature is not checked yet, to find its key; None: not one."""
    if not 64 < len(packet) <= LARGEST_MESSAGE:
        return None
    try:
        return _MESSAGE.validate_json(packet[64:])
    except ValidationError:
        return None


def is_sealed(packet: bytes, key: str, side: Literal["c", "s"]) -> bool:
    """Return whether the signature is right."""
    return hmac.compare_digest(packet[:64], _mac(packet[64:], key, side).encode())


def _mac(body: bytes, key: str, side: str) -> str:
    return hmac.new(bytes.fromhex(key), side.encode() + body, hashlib.sha256).hexdigest()
