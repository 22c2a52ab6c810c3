"""Running a program of the laptop's testbed until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


def run_until_signal(program: Coroutine[None, None, None], on_signal: Callable[[], object] = lambda: None) -> None:
    """Run it; at a signal `on_signal` is called and it is cancelled, which is no error."""

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None

        def stop() -> None:
            on_signal()
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop)
        await program

    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(run())
