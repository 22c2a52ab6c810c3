"""Ctrl-C where threads are waited for, and while they stop."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


@contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """A second Ctrl-C while the threads stop must not cost what the first one has to say."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread hears of signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
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
