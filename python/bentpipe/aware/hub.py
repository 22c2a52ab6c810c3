"""Subscribers of events. Each has a short queue; one that does not read is dropped and the others do not wait."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

MOST_WAITING = 32
"""Events that may wait for a subscriber; chosen here: eight seconds of four kinds."""

MOST_SUBSCRIBERS = 4096
"""Most subscribers; chosen here: each takes about 60 kB."""


@dataclass(eq=False)
class Subscriber:
    """A subscriber.

    Attributes:
        kinds: Kinds of events that it wants.
        waiting: Events for it.
        is_dropped: Set once it is dropped.
    """

    kinds: frozenset[str]
    waiting: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(MOST_WAITING))
    is_dropped: asyncio.Event = field(default_factory=asyncio.Event)


class Hub:
    """Passes events to subscribers. All calls are in one event loop."""

    def __init__(self) -> None:
        """Begin without subscribers."""
        self.subscribers: set[Subscriber] = set()
        self.dropped = 0
        self.number = 0

    def subscribe(self, kinds: frozenset[str]) -> Subscriber | None:
        """Add a subscriber; None: there are too many."""
        if len(self.subscribers) >= MOST_SUBSCRIBERS:
            return None
        subscriber = Subscriber(kinds)
        self.subscribers.add(subscriber)
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """Remove a subscriber."""
        self.subscribers.discard(subscriber)

    def publish(self, kind: str, text: str) -> None:
        """Pass an event to all that want its kind."""
        self.number += 1
        data = event(kind, text, self.number)
        for subscriber in tuple(self.subscribers):
            if kind in subscriber.kinds:
                self.pass_on(subscriber, data)

    def pass_on(self, subscriber: Subscriber, data: bytes) -> None:
        """Pass an event to one subscriber, or drop it if it does not read."""
        try:
            subscriber.waiting.put_nowait(data)
        except asyncio.QueueFull:
            self.dropped += 1
            self.subscribers.discard(subscriber)
            subscriber.is_dropped.set()


def event(kind: str, text: str, number: int) -> bytes:
    """Return a server-sent event (HTML standard, section 9.2)."""
    return f"event: {kind}\nid: {number}\ndata: {text}\n\n".encode()
