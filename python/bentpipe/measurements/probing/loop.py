"""The engine's loop: what is due at a time, what can be read, and a clock that is watched.

A probe's time is start + its number × interval, whatever the ones before did: a late one makes no other late. One that
is a whole interval late is not sent at all but counted as skipped: two at a time would be another load than was asked.
"""

from __future__ import annotations

import heapq
import select
import socket
import time
from collections.abc import Callable
from itertools import count

#: What the loop looks at apart from packets (fates, clocks, whether it should end) it looks at this often [ns].
TICK_NS = 50_000_000

Reader = Callable[[int], None]
"""Is called when there is something to read, with the monotonic time at which that was seen [ns]."""


class Loop:
    """Timers and sockets of one thread."""

    def __init__(self) -> None:
        """Nothing is due."""
        self._timers: list[tuple[int, int, Callable[[int], None]]] = []
        self._order = count()
        self._poller = select.epoll()
        self._readers: dict[int, Reader] = {}
        self._stopped = False

    def at(self, due_ns: int, call: Callable[[int], None]) -> None:
        """Calls `call` with `due_ns`, at that time of the monotonic clock or as soon after as can be."""
        heapq.heappush(self._timers, (due_ns, next(self._order), call))

    def watch(self, sock: socket.socket | int, reader: Reader, events: int = select.EPOLLIN) -> None:
        """Calls `reader` when there is something to read, or an error to be had."""
        number = sock if isinstance(sock, int) else sock.fileno()
        self._readers[number] = reader
        self._poller.register(number, events)

    def forget(self, sock: socket.socket | int) -> None:
        """Before it is closed."""
        number = sock if isinstance(sock, int) else sock.fileno()
        self._readers.pop(number, None)
        self._poller.unregister(number)

    def stop(self) -> None:
        """`run` returns after what it is at."""
        self._stopped = True

    def run(self) -> None:
        """Until `stop`."""
        while not self._stopped:
            now = time.monotonic_ns()
            if self._timers and self._timers[0][0] <= now:
                due_ns, _, call = heapq.heappop(self._timers)
                call(due_ns)
                timeout_s: float | None = 0.0
            else:
                timeout_s = (self._timers[0][0] - now) / 1e9 if self._timers else None
            # epoll itself waits whole milliseconds.
            if timeout_s == 0.0 or select.select([self._poller.fileno()], [], [], timeout_s)[0]:
                self._read()

    def _read(self) -> None:
        found = self._poller.poll(0)
        seen_ns = time.monotonic_ns()
        for number, _ in found:
            reader = self._readers.get(number)
            if reader is not None:
                reader(seen_ns)
