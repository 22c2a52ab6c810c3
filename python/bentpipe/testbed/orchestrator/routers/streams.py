"""Server-sent events that cost little: one task and one timer for each stream, woken by an event."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from bentpipe.testbed.orchestrator.security.client_certificates import CONNECTION_KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from starlette.types import Receive, Scope, Send

PING_S = 15.0
"""Time after which a stream sends a comment, so that home routers keep the connection [s]."""


class EventStream(Response):
    """A stream of a value: sent at once, and whenever it changed after a wake-up.

    Args:
        waking: Makes the event that is set at a change.
        value: Returns the present value; None: the stream ends.
        name: Name of the events.
    """

    def __init__(
        self, waking: Callable[[], AbstractContextManager[asyncio.Event]], value: Callable[[], str | None], name: str
    ) -> None:
        """Keep what makes the events; nothing is sent yet."""
        super().__init__(media_type="text/event-stream")
        self._waking, self._value, self._name = waking, value, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client leaves."""
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        with self._waking() as event:
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
            if value is None:
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
