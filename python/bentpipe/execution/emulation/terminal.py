"""The terminal's foreground process group, which a shell inside an emulation takes and cannot restore."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def restore_foreground() -> Iterator[None]:
    """Make this process's group the terminal's foreground group again after the block, if it was before.

    A shell with job control makes its own group the foreground group, and restores the earlier one at its end. Inside
    an emulation that group is outside its PID namespace, where its number is 0. So the terminal would stay with a dead
    group, and the next process that reads from it would fail (EIO).
    """
    terminal = _terminal()
    is_foreground = terminal is not None and os.tcgetpgrp(terminal) == os.getpgrp()
    try:
        yield
    finally:
        if terminal is not None and is_foreground:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})  # sent to a background group
            with contextlib.suppress(OSError):  # the terminal hung up
                os.tcsetpgrp(terminal, os.getpgrp())
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _terminal() -> int | None:
    """Return the descriptor of standard input if it is this session's terminal."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed or missing
        terminal = sys.stdin.fileno()
        os.tcgetpgrp(terminal)
        return terminal
    return None
