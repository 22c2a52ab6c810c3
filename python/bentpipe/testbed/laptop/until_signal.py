"""Running a program of the laptop's testbed until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine


def run_until_signal(program: Coroutine[None, None, None]) -> None:
    """Run it; at a signal it is cancelled, which is no error."""

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        await program

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(run())
