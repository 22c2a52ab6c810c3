"""What happens without a request: plans, retries, silent nodes, stored heartbeats."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from bentpipe.testbed.orchestrator.services import oidc_logins
from bentpipe.testbed.orchestrator.services.experiments import end_those_done
from bentpipe.testbed.orchestrator.services.idempotency import forget_old
from bentpipe.testbed.orchestrator.services.planner import plan_turn
from bentpipe.testbed.orchestrator.services.retention import delete_old
from bentpipe.testbed.orchestrator.services.retries import retry_turn
from bentpipe.testbed.orchestrator.services.silence import silence_turn
from bentpipe.testbed.orchestrator.services.uploads import Uploads
from bentpipe.testbed.orchestrator.wakeups import POLL_S, listen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from bentpipe.testbed.orchestrator.context import Orchestrator
    from bentpipe.testbed.orchestrator.services.heartbeats import Heartbeats
    from bentpipe.testbed.orchestrator.services.telemetry import Telemetry

log = logging.getLogger("bentpipe.testbed")
FLUSH_S = 1.0
"""Time between two transactions with heartbeats [s]."""


def workers(
    orchestrator: Orchestrator, heartbeats: Heartbeats, telemetry: Telemetry, *, events_days: int, audit_days: int
) -> list[Coroutine[Any, Any, None]]:
    """Return all workers; each runs until it is cancelled."""
    tasks = [
        every(FLUSH_S, heartbeats.flush),
        plan(orchestrator),
        every(POLL_S, lambda: silence_turn(orchestrator)),
        every(POLL_S, lambda: end_those_done(orchestrator)),
        every(POLL_S, telemetry.end_looks),
        every(3600.0, lambda: forget_old(orchestrator)),
        every(3600.0, lambda: oidc_logins.forget_old(orchestrator)),
        every(3600.0, Uploads(orchestrator).forget_old),
        every(3600.0, lambda: delete_old(orchestrator, events_days, audit_days)),
    ]
    if not orchestrator.database.is_sqlite:
        tasks += [hear_others(orchestrator), every(POLL_S, lambda: reread(orchestrator))]
    return tasks


async def plan(orchestrator: Orchestrator) -> None:
    """Plan what is due and retry what was preempted, when there is work and at each poll."""
    while True:
        try:
            while await plan_turn(orchestrator) + await retry_turn(orchestrator):
                await asyncio.sleep(0)  # others want the writer too
        except Exception:
            log.exception("planning failed; it is tried again")
            await asyncio.sleep(1)
        await orchestrator.wakeups.planner_turn(POLL_S)


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
        changed = await orchestrator.nodes.load(connection)
    if changed:
        orchestrator.wakeups.wake(changed)


async def hear_others(orchestrator: Orchestrator) -> None:
    """Take the wake-ups of other processes on one PostgreSQL."""

    async def on_note(changed: set[str], planner: bool) -> None:
        async with orchestrator.database.read() as connection:
            await orchestrator.nodes.load(connection, changed)
        orchestrator.wakeups.wake(changed, planner=planner)

    await listen(orchestrator.database.url, on_note)
