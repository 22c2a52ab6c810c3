"""What a program writes to its standard output: passed on at once and unchanged, and kept."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import termios
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.readers import TOOLS, Arrivals

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT_BYTES = 128 << 20
"""Most that is kept. Chosen here: two hours of irtt every 60 ms; what is longer is a download, not a result."""

CHUNK_BYTES = 1 << 16
"""As much as a pipe of Linux holds (pipe(7))."""

STDOUT = 1


class Tee:
    """Between a program and this process's standard output; to be entered before the program starts.

    The program gets `stdout`: a pipe where standard output is none of a terminal. Where it is a terminal, a program of
    `bentpipe.readers.TOOLS` gets a pseudo-terminal of the same kind (so it writes line by line, as it would), and any
    other gets the terminal itself (`stdout` is None, nothing is kept): it may be a shell, or draw on the screen.
    """

    def __init__(self, command: Sequence[str], kept: Path) -> None:
        """`command` is the program's; `kept` the file that is written, if anything comes."""
        self.kept = kept
        self.total_bytes = 0
        self.stdout: int | None = None
        self._ends: list[int] = []
        self._unix_ns: list[int] = []
        self._tool = Path(command[0]).name in TOOLS
        self._failed: OSError | None = None

    def __enter__(self) -> Tee:
        """Open the pipe and begin to pass on."""
        try:
            os.fstat(STDOUT)
        except OSError:  # closed: the program is to find it so
            return self
        terminal = os.isatty(STDOUT)
        if terminal and not self._tool:
            return self
        self._from, self.stdout = _pseudo_terminal() if terminal else os.pipe()
        self._over, self._end = os.pipe()
        self._thread = threading.Thread(target=self._pass_on, name="program output", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Pass on the rest: all that runs inside has ended, so what is to come is there."""
        if self.stdout is not None:
            os.close(self.stdout)
            os.close(self._end)
            self._thread.join()
            os.close(self._over)

    @property
    def arrivals(self) -> Arrivals:
        """When each part of what is kept was written."""
        return Arrivals(self._ends, self._unix_ns)

    @property
    def failed(self) -> OSError | None:
        """Why not all was kept, if it was the disk's fault."""
        return self._failed

    def _pass_on(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, self._from)  # a program that writes on hears that nobody reads, as it would
            file = None
            while chunk := self._read():
                now_ns = time.time_ns()
                room = KEPT_BYTES - self.total_bytes
                self.total_bytes += len(chunk)
                is_read = _write(chunk)
                if room > 0 and self._failed is None:
                    try:
                        file = file or stack.enter_context(self.kept.open("wb"))
                        file.write(chunk[:room])
                    except OSError as error:
                        self._failed = error
                    self._ends.append(self.total_bytes)
                    self._unix_ns.append(now_ns)
                if not is_read:
                    return

    def _read(self) -> bytes:
        """The next of it; empty: there is no more."""
        while True:
            ready, _, _ = select.select([self._from, self._over], [], [])
            if self._from not in ready:  # everything inside has ended; somebody outside may hold on to the pipe
                ready, _, _ = select.select([self._from], [], [], 0)
                if not ready:
                    return b""
            try:
                return os.read(self._from, CHUNK_BYTES)
            except OSError as error:
                if error.errno == errno.EIO:  # a pseudo-terminal that nobody has open any more (pty(7))
                    return b""
                raise


def _write(chunk: bytes) -> bool:
    """Pass on; False: nobody reads any more."""
    rest = memoryview(chunk)
    while rest:
        try:
            rest = rest[os.write(STDOUT, rest) :]
        except BlockingIOError:
            select.select([], [STDOUT], [])
        except OSError:
            return False
    return True


def _pseudo_terminal() -> tuple[int, int]:
    """Both ends of one that is like the terminal of standard output, but changes nothing of what passes."""
    ours, programs = os.openpty()
    settings = termios.tcgetattr(STDOUT)
    settings[1] &= ~termios.OPOST  # the real one does that
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(programs, termios.TCSANOW, settings)
    size = fcntl.ioctl(STDOUT, termios.TIOCGWINSZ, bytes(8))
    fcntl.ioctl(programs, termios.TIOCSWINSZ, size)
    return ours, programs
