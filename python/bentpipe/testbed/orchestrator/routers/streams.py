"""Server-sent events that cost little: one task and one timer for each stream, woken by an event."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from bentpipe.testbed.orchestrator.security.client_certificates import CONNECTION_KEY
from bentpipe.testbed.orchestrator.services.refusals import BusyError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from contextlib import AbstractContextManager

    from starlette.types import Receive, Scope, Send

PING_S = 15.0
"""Time after which a stream sends a comment, so that home routers keep the connection [s]."""
CHECK_S = 5.0
"""Least time between two looks whether the caller still may look [s]; with `PING_S` a stream ends within 20 s."""
MOST_STREAMS = 24
"""Open streams of a user: a browser opens six connections, and a user has a few browsers and `exp watch`."""
MOST_STREAMS_OF_NODE = 4
"""Open streams of a node: an agent has one, and those that it lost end after a while."""


class OpenStreams:
    """Counts open streams by caller."""

    def __init__(self) -> None:
        """Begin without any."""
        self._counts: dict[str, int] = {}

    def check(self, caller: str, most: int) -> None:
        """Raise `BusyError` if a caller has too many."""
        if self._counts.get(caller, 0) >= most:
            raise BusyError(f"{most} streams of this caller are open; expected fewer; close one")

    @contextlib.contextmanager
    def counted(self, caller: str) -> Iterator[None]:
        """Count a stream while it is open."""
        self._counts[caller] = self._counts.get(caller, 0) + 1
        try:
            yield
        finally:
            self._counts[caller] -= 1
            if not self._counts[caller]:
                del self._counts[caller]


OPEN = OpenStreams()
"""Streams of this process."""


class EventStream(Response):
    """A stream of a value: sent at once, and whenever it changed after a wake-up.

    Args:
        waking: Makes the event that is set at a change.
        value: Returns the present value; None: the stream ends.
        name: Name of the events.
        caller: Whose streams are counted.
        most: Most streams of that caller.
        may_look: Tells whether the caller still may look; None: `value` tells it.

    Raises:
        BusyError: The caller has too many streams.
    """

    def __init__(
        self,
        waking: Callable[[], AbstractContextManager[asyncio.Event]],
        value: Callable[[], str | None],
        name: str,
        *,
        caller: str,
        most: int = MOST_STREAMS,
        may_look: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """Keep what makes the events; nothing is sent yet."""
        OPEN.check(caller, most)
        super().__init__(media_type="text/event-stream")
        self._waking, self._value, self._name = waking, value, name
        self._caller, self._may_look = caller, may_look
        self._checked_s = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client leaves."""
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        with OPEN.counted(self._caller), self._waking() as event:
            watch = _Leaving(scope, receive, event)
            try:
                await self._send(send, event, watch)
            finally:
                watch.end()

    async def _send(self, send: Send, event: asyncio.Event, watch: _Leaving) -> None:
        loop = asyncio.get_running_loop()
        last: str | None = None
        while not watch.left:
            event.clear()  # before the value is read: a change after that wakes once more
            value = self._value()
            if value is None or not await self._is_allowed():
                await send({"type": "http.response.body", "body": b""})
                return
            if value == last and watch.connection is not None:
                watch.connection.send_chunk(b": ping\n\n")
            else:
                await self._send_value(send, value, last)
            last = value
            is_ping = False

            def ping() -> None:
                nonlocal is_ping
                is_ping = True
                event.set()

            timer = loop.call_later(PING_S, ping)
            try:
                while not watch.left and not is_ping:
                    await event.wait()
                    if is_ping or watch.left or self._value() != last:
                        break
                    event.clear()
            finally:
                timer.cancel()

    async def _is_allowed(self) -> bool:
        now_s = time.monotonic()
        if self._may_look is None or now_s - self._checked_s < CHECK_S:
            return True
        self._checked_s = now_s
        return await self._may_look()

    async def _send_value(self, send: Send, value: str, last: str | None) -> None:
        text = b": ping\n\n" if value == last else f"event: {self._name}\ndata: {value}\n\n".encode()
        await send({"type": "http.response.body", "body": text, "more_body": True})


class _Leaving:
    """Whether the client has left: told by the connection, or by a task that receives."""

    def __init__(self, scope: Scope, receive: Receive, event: asyncio.Event) -> None:
        self.left = False
        self._event, self._task = event, None
        self.connection: Any = scope.get(CONNECTION_KEY)
        if self.connection is not None:
            self.connection.on_lost = self._leave
        else:
            self._task = asyncio.ensure_future(self._receive(receive))

    def _leave(self) -> None:
        self.left = True
        self._event.set()

    async def _receive(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._leave()

    def end(self) -> None:
        if self.connection is not None:
            self.connection.on_lost = None
        if self._task is not None:
            self._task.cancel()
