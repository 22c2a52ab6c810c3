"""Feed of pings: ten echo requests a second to one address, by the prober's engine in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.testbed.agent.signals.catalogue import CATALOGUE
from bentpipe.testbed.agent.signals.feed import Feed, Values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from bentpipe.testbed.agent.signals.catalogue import Signal

EVERY_S = 0.1
"""Interval of pings [s]."""


class PingFeed(Feed):
    """Pings an address.

    A lost ping is known only after three seconds, when the prober marks it lost.
    """

    name = "ping"
    stale_s = 5.0

    def __init__(self, address: str, every_s: float = EVERY_S, *, gives_latency: bool = False) -> None:
        """Set up the feed.

        Args:
            address: Host name or address.
            every_s: Interval of pings [s].
            gives_latency: Also give each RTT as ``latency_ms``: for nodes without a terminal.
        """
        self._address, self._every_s, self._gives_latency = address, every_s, gives_latency
        self.hold_s = 1.5 * every_s
        self._process: asyncio.subprocess.Process | None = None

    @property
    def signals(self) -> Mapping[str, Signal]:
        """The signals that it gives, by name."""
        own = dict(super().signals)
        if self._gives_latency:
            own["latency_ms"] = replace(CATALOGUE["latency_ms"], feed=self.name, meaning=own["ping_ms"].meaning)
        return own

    async def samples(self) -> AsyncIterator[Values]:
        """Yield each outcome. Raises `UserError`: no such host, no permission, or the engine ended."""
        from bentpipe.measurements.probing.spec import Spec, look_up

        targets = await asyncio.to_thread(look_up, [self._address], "ping", 0, None)
        spec = Spec("ping", targets, round(self._every_s * 1e9), None)
        pipe = asyncio.subprocess.PIPE
        engine = "bentpipe.measurements.probing.engine"
        self._process = await asyncio.create_subprocess_exec(sys.executable, "-m", engine, stdin=pipe, stdout=pipe)
        try:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(spec.to_json().encode() + b"\n")
            async for line in self._process.stdout:
                values = self._values(json.loads(line))
                if values:
                    yield values
        finally:
            await self.close()
        raise UserError("the prober ended", where=f"ping {self._address}")

    async def close(self) -> None:
        """End the prober."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def _values(self, message: list[object]) -> Values:
        from bentpipe.measurements.probing.tracker import DUPLICATE

        kind, *rest = message
        if kind == "x":
            raise UserError(str(rest[0]), where=f"ping {self._address}")
        if kind != "p":
            return {}
        rtt_ns, flags = rest[3], rest[6]
        if isinstance(flags, int) and flags & DUPLICATE:
            return {}
        if not isinstance(rtt_ns, int):
            return {"ping_lost": 1.0}
        rtt_ms = rtt_ns / 1e6
        return {"ping_ms": rtt_ms, "ping_lost": 0.0, **({"latency_ms": rtt_ms} if self._gives_latency else {})}
