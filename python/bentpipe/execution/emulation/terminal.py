"""The terminal's foreground group, which a shell inside an emulation takes and cannot give back."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def foreground_kept() -> Iterator[None]:
    """After the block the terminal's foreground group is this process's again, if it was before.

    A shell with job control makes its own group the foreground and, when it ends, the one from before. Behind a path
    that one is outside its PID namespace, where it is called 0: the terminal would stay with a group that is dead, and
    the next read from it, by whoever comes after, fails (EIO).
    """
    terminal = _terminal()
    ours = terminal is not None and os.tcgetpgrp(terminal) == os.getpgrp()
    try:
        yield
    finally:
        if terminal is not None and ours:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})  # a background group may not ask
            with contextlib.suppress(OSError):  # the terminal hung up
                os.tcsetpgrp(terminal, os.getpgrp())
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _terminal() -> int | None:
    """Descriptor of the standard input if it is this session's terminal."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or none at all
        terminal = sys.stdin.fileno()
        os.tcgetpgrp(terminal)
        return terminal
    return None
