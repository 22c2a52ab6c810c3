"""Wake who waits for a change: an event in this process, LISTEN/NOTIFY between processes on one PostgreSQL.

Who waits clears the wake-up *before* reading the database: a change after the read wakes it once more. A wake-up that
is lost costs a poll.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from sqlalchemy.ext.asyncio import AsyncConnection

CHANNEL = "bentpipe"
"""Channel of NOTIFY."""
POLL_S = 15.0
"""How long who waits sleeps at most [s]."""
NODES_PER_NOTE = 200
"""Ids in one NOTIFY, which has at most 8000 bytes."""
PLANNER = "planner"

log = logging.getLogger("bentpipe.testbed")


@dataclass
class Wakeups:
    """Events of nodes, of the planner, and of pages that follow everything."""

    _nodes: dict[str, set[asyncio.Event]] = field(default_factory=dict)
    _planner: asyncio.Event = field(default_factory=asyncio.Event)
    _followers: set[asyncio.Event] = field(default_factory=set)
    number: int = 0
    """Grows with each wake-up."""
    ended: bool = False
    """Whether streams end."""

    def end(self) -> None:
        """End all streams, as the program ends."""
        self.ended = True
        self.wake(list(self._nodes))

    def wake(self, nodes: Iterable[str], *, planner: bool = False) -> None:
        """Wake the streams of nodes, all followers, and the planner."""
        self.number += 1
        for node in nodes:
            for each in self._nodes.get(node, ()):
                each.set()
        for each in self._followers:
            each.set()
        if planner:
            self._planner.set()

    @contextlib.contextmanager
    def of_node(self, node: str) -> Iterator[asyncio.Event]:
        """Yield the event that is set when a node's wanted state changes."""
        event = asyncio.Event()
        self._nodes.setdefault(node, set()).add(event)
        try:
            yield event
        finally:
            events = self._nodes[node]
            events.discard(event)
            if not events:
                del self._nodes[node]

    @contextlib.contextmanager
    def of_all(self) -> Iterator[asyncio.Event]:
        """Yield the event that is set when anything changes."""
        event = asyncio.Event()
        self._followers.add(event)
        try:
            yield event
        finally:
            self._followers.discard(event)

    async def planner_turn(self, timeout_s: float) -> None:
        """Wait until the planner has work, or the time is over; the wake-up is cleared."""
        with contextlib.suppress(TimeoutError):
            # Not wait_for: in Python 3.11 it swallows a cancellation that comes together with the event.
            async with asyncio.timeout(timeout_s):
                await self._planner.wait()
        self._planner.clear()

    def streams(self) -> int:
        """Return how many streams of nodes are open."""
        return sum(len(events) for events in self._nodes.values())

    async def announce(self, connection: AsyncConnection, nodes: Iterable[str], planner: bool) -> None:
        """Tell the other processes, when the transaction is committed."""
        names = [*sorted(nodes), *([PLANNER] if planner else [])]
        for first in range(0, len(names), NODES_PER_NOTE):
            payload = ",".join(names[first : first + NODES_PER_NOTE])
            await connection.execute(
                text("SELECT pg_notify(:channel, :payload)"), {"channel": CHANNEL, "payload": payload}
            )


async def listen(url: str, on_note: Callable[[set[str], bool], Awaitable[None]]) -> None:
    """Take the notes of other processes until cancelled; `on_note` gets nodes, and whether the planner has work."""
    import asyncpg
    from sqlalchemy.engine import make_url

    address = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    while True:
        notes: asyncio.Queue[str | None] = asyncio.Queue(10_000)
        try:
            connection = await asyncpg.connect(address)
        except (OSError, asyncpg.PostgresError) as error:
            log.warning("LISTEN: %s; polling", error)
            await asyncio.sleep(POLL_S)
            continue
        connection.add_termination_listener(lambda _, notes=notes: notes.put_nowait(None))
        try:
            await connection.add_listener(CHANNEL, lambda *note, notes=notes: _keep(notes, note[3]))
            while (payload := await notes.get()) is not None:
                names = set(payload.split(","))
                await on_note(names - {PLANNER}, PLANNER in names)
        finally:
            with contextlib.suppress(OSError, asyncpg.PostgresError, TimeoutError):
                await connection.close(timeout=2)


def _keep(notes: asyncio.Queue[str | None], payload: str) -> None:
    with contextlib.suppress(asyncio.QueueFull):  # a lost wake-up costs a poll
        notes.put_nowait(payload)
