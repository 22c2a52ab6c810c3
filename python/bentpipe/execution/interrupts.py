"""Ctrl-C where threads are waited for, and while they stop."""

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
"""How long what is under way has to stop [s]. Chosen here: a slice of a Run, at which it looks, takes a fraction of a
second."""


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """A second Ctrl-C while the threads stop must not cost what the first one has to say.

    One that comes `PATIENCE_S` later or more ends the process at once: a controller in Python may never return, and
    nothing stops a thread that is in it.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread hears of signals
        yield
        return
    began_s = time.monotonic()

    def again(_: int, __: FrameType | None) -> None:
        if time.monotonic() - began_s >= PATIENCE_S:
            os.write(2, b"error: ended at once, something did not stop; what was finished is kept\n")
            os._exit(128 + signal.SIGINT)

    before = signal.signal(signal.SIGINT, again)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def ctrl_c_held_back() -> Iterator[None]:
    """Ctrl-C that comes inside is heard at the end of it.

    For what takes locks of futures and pools (`wait`, `submit`, `result`): interrupted between taking one and the block
    that gives it back, it keeps the lock, and the thread that has a result to say waits for it for ever.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):  # or Ctrl-C is ignored
        yield
        return
    heard: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        before(*heard[0])
