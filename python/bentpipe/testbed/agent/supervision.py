"""Loops that go on: one that fails is begun again, with a line in the log, after a pause that grows."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from bentpipe.errors import BentpipeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LOG = logging.getLogger("bentpipe.agent")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0


class Backoff:
    """Pauses that double, with a random part so that a thousand agents do not come at once.

    Example:
        >>> pauses = Backoff(random.Random(1))
        >>> first, second = pauses.next_s(), pauses.next_s()
        >>> 0.5 <= first <= 1.0 <= second <= 2.0
        True
    """

    def __init__(self, draw: random.Random | None = None, longest_s: float = LONGEST_PAUSE_S) -> None:
        """Begin with the shortest."""
        self._draw = draw or random.Random()
        self._longest_s = longest_s
        self._pause_s = FIRST_PAUSE_S

    def next_s(self) -> float:
        """Return the next pause [s]."""
        pause_s = self._pause_s * self._draw.uniform(0.5, 1.0)
        self._pause_s = min(2 * self._pause_s, self._longest_s)
        return pause_s

    def reset(self) -> None:
        """Begin with the shortest again."""
        self._pause_s = FIRST_PAUSE_S


async def keep_going(name: str, loop: Callable[[], Awaitable[object]], on_trouble: Callable[[str], object]) -> None:
    """Run a loop for ever.

    Args:
        name: Its name in the log.
        loop: One pass, or an endless loop.
        on_trouble: Called with a line when it failed.
    """
    backoff = Backoff()
    while True:
        begin_s = asyncio.get_running_loop().time()
        try:
            await loop()
            backoff.reset()
            continue
        except asyncio.CancelledError:
            raise
        except BentpipeError as error:
            LOG.warning("%s: %s", name, error)
            on_trouble(f"{name}: {error}")
        except Exception as error:  # a defect in one loop must not stop the others
            LOG.exception("%s failed", name)
            on_trouble(f"{name}: {type(error).__name__}: {error}")
        if asyncio.get_running_loop().time() - begin_s > LONGEST_PAUSE_S:
            backoff.reset()
        await asyncio.sleep(backoff.next_s())
