"""Event loop of the engine: timers, readable sockets and a periodic tick.

A probe is due at start + its number × interval, independent of earlier probes, so that a late probe delays no other. A
probe that is a whole interval late is counted as skipped instead of sent: two at a time would be a different load than
requested.
"""

from __future__ import annotations

import heapq
import select
import socket
import time
from collections.abc import Callable
from itertools import count

#: Interval of periodic work: timeouts, clocks, and the check for the end [ns].
TICK_NS = 50_000_000

Reader = Callable[[int], None]
"""Callback for a readable socket; gets the monotonic time at which that was noticed [ns]."""


class Loop:
    """Timers and sockets of one thread."""

    def __init__(self) -> None:
        """Start without timers and sockets."""
        self._timers: list[tuple[int, int, Callable[[int], None]]] = []
        self._order = count()
        self._poller = select.epoll()
        self._readers: dict[int, Reader] = {}
        self._stopped = False

    def at(self, due_ns: int, call: Callable[[int], None]) -> None:
        """Schedule `call(due_ns)` for `due_ns` by the monotonic clock, or as soon after as possible."""
        heapq.heappush(self._timers, (due_ns, next(self._order), call))

    def watch(self, sock: socket.socket | int, reader: Reader, events: int = select.EPOLLIN) -> None:
        """Call `reader` when the socket is readable or has an error."""
        number = sock if isinstance(sock, int) else sock.fileno()
        self._readers[number] = reader
        self._poller.register(number, events)

    def forget(self, sock: socket.socket | int) -> None:
        """Unregister a socket, before it is closed."""
        number = sock if isinstance(sock, int) else sock.fileno()
        self._readers.pop(number, None)
        self._poller.unregister(number)

    def stop(self) -> None:
        """Make `run` return after the current callback."""
        self._stopped = True

    def run(self) -> None:
        """Run until `stop` is called."""
        while not self._stopped:
            now = time.monotonic_ns()
            if self._timers and self._timers[0][0] <= now:
                due_ns, _, call = heapq.heappop(self._timers)
                call(due_ns)
                timeout_s: float | None = 0.0
            else:
                timeout_s = (self._timers[0][0] - now) / 1e9 if self._timers else None
            # select() has microsecond resolution; epoll waits whole milliseconds.
            if timeout_s == 0.0 or select.select([self._poller.fileno()], [], [], timeout_s)[0]:
                self._read()

    def _read(self) -> None:
        ready = self._poller.poll(0)
        seen_ns = time.monotonic_ns()
        for number, _ in ready:
            reader = self._readers.get(number)
            if reader is not None:
                reader(seen_ns)
