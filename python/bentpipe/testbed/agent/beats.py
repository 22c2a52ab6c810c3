"""Beats of a client's session from a thread of their own: an agent whose loop is busy for a moment is not silent."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from bentpipe.testbed.agent.session import BEAT_S

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

LONGEST_S = 3.0
"""Time after which an agent whose loop has not run is taken for stuck: it could not yield, so its beats end [s]."""


class Beats:
    """Sends a beat every `BEAT_S` until `stop`, and while `is_alive` is called at least every `LONGEST_S`.

    Args:
        to_server: Connected socket; `stop` closes it.
        packet: Makes a beat; called from the thread, and not any more once `stop` has returned.
    """

    def __init__(self, to_server: socket.socket, packet: Callable[[], bytes]) -> None:
        """Start."""
        self._socket, self._packet, self._lock = to_server, packet, threading.Lock()
        self._stopped = threading.Event()
        self._alive_s = time.monotonic()
        threading.Thread(target=self._run, name="beats", daemon=True).start()

    def is_alive(self) -> None:
        """Note that the agent's loop runs."""
        self._alive_s = time.monotonic()

    def stop(self) -> None:
        """End them."""
        with self._lock:
            self._stopped.set()
            self._socket.close()

    def _run(self) -> None:
        while not self._stopped.wait(BEAT_S):
            with self._lock:
                if not self._stopped.is_set() and time.monotonic() - self._alive_s <= LONGEST_S:
                    with contextlib.suppress(OSError):
                        self._socket.send(self._packet())
