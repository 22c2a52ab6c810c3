"""Handling of Ctrl-C while waiting for threads and while they stop."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

PATIENCE_S = 3.0
"""Time that running work has to stop [s]. Chosen here: a Run checks for a stop after every slice, a fraction of a
second."""


@contextmanager
def ctrl_c_ignored() -> Iterator[None]:
    """Ignore a second Ctrl-C while threads stop, so that the message of the first one is not lost.

    A Ctrl-C after `PATIENCE_S` or more ends the process at once: a Python controller may never return, and its thread
    cannot be stopped.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
        yield
        return
    began_s = time.monotonic()

    def on_signal(_: int, __: FrameType | None) -> None:
        if time.monotonic() - began_s >= PATIENCE_S:
            os.write(2, b"error: ended at once, something did not stop; finished Runs are stored\n")
            os._exit(128 + signal.SIGINT)

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def ctrl_c_deferred() -> Iterator[None]:
    """Defer a Ctrl-C inside the block to its end.

    Use it around calls that take locks of futures and pools (`wait`, `submit`, `result`). If an interrupt came between
    acquiring such a lock and the block that releases it, the thread that delivers a result would wait forever.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):  # or Ctrl-C is ignored
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: received.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if received:
        before(*received[0])
