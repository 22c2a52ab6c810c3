"""``HEAD``: the headers that ``GET`` has, for every route that has ``GET``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """Answers ``HEAD`` as ``GET``, without the body; a stream ends after its headers."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        has_headers = asyncio.Event()

        async def send_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})
                has_headers.set()

        answer = asyncio.ensure_future(self._app({**scope, "method": "GET"}, receive, send_headers))
        headers = asyncio.ensure_future(has_headers.wait())
        try:
            await asyncio.wait({answer, headers}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            headers.cancel()
            if not answer.done():
                answer.cancel()
        await asyncio.gather(answer, return_exceptions=has_headers.is_set())
