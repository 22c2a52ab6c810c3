"""Feed of a recording: its samples at their distances in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.testbed.agent.signals.catalogue import CATALOGUE
from bentpipe.testbed.agent.signals.feed import Feed, Values
from bentpipe.testbed.agent.signals.recordings import read_recording

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from bentpipe.testbed.agent.signals.catalogue import Signal


class ReplayFeed(Feed):
    """Replays a recording once: for rehearsals and tests."""

    name = "replay"
    stale_s = 5.0

    def __init__(self, path: Path, speed: float = 1.0) -> None:
        """Read the recording.

        Args:
            path: As for `read_recording`.
            speed: How many times as fast.

        Raises:
            UserError: Unreadable, or a speed out of range.
        """
        if not 0.1 <= speed <= 3600:
            raise UserError(f"{speed:g}", where="speed", expected="0.1 to 3600")
        self._recording, self._speed = read_recording(path), speed
        self.hold_s = max(self._recording.hold_s.values(), default=0.0) / speed
        self.note = "; ".join(self._recording.notes)

    @property
    def signals(self) -> Mapping[str, Signal]:
        """The signals that it gives, by name."""
        return {name: CATALOGUE[name] for name in sorted(self._recording.signals)}

    async def samples(self) -> AsyncIterator[Values]:
        """Yield each sample when it is due."""
        loop = asyncio.get_running_loop()
        begin_s, first_s = loop.time(), None
        for t_s, values in self._recording.rows():
            first_s = t_s if first_s is None else first_s
            due_s = begin_s + (t_s - first_s) / self._speed
            if due_s > loop.time():
                await asyncio.sleep(due_s - loop.time())
            yield {**values}
