"""Streams that are passed on: from a port in a namespace to a Unix socket, and from that to the orchestrator."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Opening = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


def forwarder(open_other: Opening) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """Return a server's callback that joins each client with a connection of its own."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other_reader, other_writer = await open_other()
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))
        finally:
            for each in (writer, other_writer):
                each.close()

    return serve
