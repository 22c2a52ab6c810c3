"""Waiting with a limit. `asyncio.wait_for` of Python 3.11 may lose a cancellation; `asyncio.timeout` does not."""

from __future__ import annotations

import asyncio


async def wait_at_most(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, or so long [s]; return whether it is set."""
    try:
        async with asyncio.timeout(max(seconds, 0.0)):
            await event.wait()
    except TimeoutError:
        return False
    return True
