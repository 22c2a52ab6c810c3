"""Ctrl-C while threads stop."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


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
