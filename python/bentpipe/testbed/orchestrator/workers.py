"""What happens without a request: heartbeats are stored, nodes are read anew."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from bentpipe.testbed.orchestrator.wakeups import POLL_S, listen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from bentpipe.testbed.orchestrator.context import Orchestrator
    from bentpipe.testbed.orchestrator.services.heartbeats import Heartbeats

log = logging.getLogger("bentpipe.testbed")
FLUSH_S = 1.0
"""Time between two transactions with heartbeats [s]."""


def workers(orchestrator: Orchestrator, heartbeats: Heartbeats) -> list[Coroutine[Any, Any, None]]:
    """Return all workers; each runs until it is cancelled."""
    tasks = [every(FLUSH_S, heartbeats.flush), every(POLL_S, lambda: reread(orchestrator))]
    if not orchestrator.database.is_sqlite:
        tasks.append(hear_others(orchestrator))
    return tasks


async def every(period_s: float, action: Callable[[], Awaitable[object]]) -> None:
    """Do something again and again; a failure is logged and tried again."""
    while True:
        await asyncio.sleep(period_s)
        try:
            await action()
        except Exception:
            log.exception("%s failed; it is tried again", getattr(action, "__qualname__", "a worker"))


async def reread(orchestrator: Orchestrator) -> None:
    """Read all nodes anew: what another process changed, and whose wake-up was lost."""
    async with orchestrator.database.read() as connection:
        await orchestrator.nodes.load(connection)


async def hear_others(orchestrator: Orchestrator) -> None:
    """Take the wake-ups of other processes on one PostgreSQL."""

    async def on_note(changed: set[str], planner: bool) -> None:
        async with orchestrator.database.read() as connection:
            await orchestrator.nodes.load(connection, changed)
        orchestrator.wakeups.wake(changed, planner=planner)

    await listen(orchestrator.database.url, on_note)
