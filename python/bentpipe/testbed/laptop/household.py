"""A household that downloads now and then, over the same link as the experiments."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from bentpipe.testbed.laptop.plan import HOUSEHOLD_PORT, PATH_SERVER, VIDEO_S

if TYPE_CHECKING:
    from pathlib import Path

RATE_BPS = 8_000_000
"""Rate of the household's video [bit/s]."""
PIECE_S = 0.05
"""Time between two pieces [s]."""


async def serve_household(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send at `RATE_BPS` until the household hangs up."""
    piece = bytes(round(RATE_BPS / 8 * PIECE_S))
    loop = asyncio.get_running_loop()
    next_s = loop.time()
    with contextlib.suppress(OSError):
        while not reader.at_eof():
            writer.write(piece)
            await writer.drain()
            next_s += PIECE_S
            await asyncio.sleep(max(0.0, next_s - loop.time()))
    writer.close()


async def watch_video(seconds: float) -> None:
    """Receive for so long [s]."""
    with contextlib.suppress(OSError, TimeoutError):
        reader, writer = await asyncio.open_connection(PATH_SERVER, HOUSEHOLD_PORT)
        try:
            async with asyncio.timeout(seconds):
                while await reader.read(65_536):
                    pass
        finally:
            writer.close()


def request_file(folder: Path, home: str) -> Path:
    """Return the file that makes a household use its link once, when it appears."""
    return folder / f"{home}.household"


async def live(folder: Path, home: str) -> None:
    """Use the link whenever somebody asks for it, for ever."""
    path = request_file(folder, home)
    while True:
        if path.exists():
            path.unlink(missing_ok=True)
            await watch_video(VIDEO_S)
        await asyncio.sleep(0.2)
