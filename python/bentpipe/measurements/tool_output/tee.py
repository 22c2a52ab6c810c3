"""Tee of a program's standard output: passed through at once and unchanged, and stored."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import select
import termios
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.measurements.readers.reading import Arrivals
from bentpipe.measurements.readers.tools import MOST_BYTES, TOOLS

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT_BYTES = MOST_BYTES
"""Largest stored output [bytes]; longer output is a download, not a result."""

CHUNK_BYTES = 1 << 16
"""Capacity of a pipe on Linux (pipe(7))."""

STDOUT = 1


class Tee:
    """Passes a program's output to this process's standard output and stores it; enter it before the program starts.

    The program's standard output is `stdout`: a pipe if this process's standard output is not a terminal. If it is a
    terminal, a program of `bentpipe.measurements.readers.TOOLS` gets a pseudo-terminal with the same settings, so that
    it is line-buffered as usual. Any other program gets the terminal itself (`stdout` is None, nothing is stored),
    because it may be a shell or draw on the screen.
    """

    def __init__(self, command: Sequence[str], kept: Path) -> None:
        """`command` is the program's command; `kept` the file for its output, created if there is any."""
        self.kept = kept
        self.total_bytes = 0
        self.stdout: int | None = None
        self._ends: list[int] = []
        self._unix_ns: list[int] = []
        self._tool = Path(command[0]).name in TOOLS
        self._file: io.FileIO | None = None
        self._unwritten = bytearray()
        self._failed: OSError | None = None
        self._not_passed_on: OSError | None = None

    def __enter__(self) -> Tee:
        """Open the pipe and start the thread."""
        try:
            os.fstat(STDOUT)
        except OSError:  # closed: the program inherits it closed
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
        """Pass on the rest: the program and its children have ended, so no more output will come."""
        if self.stdout is not None:
            os.close(self.stdout)
            os.close(self._end)
            self._thread.join()
            os.close(self._over)
            self._close()

    @property
    def arrivals(self) -> Arrivals:
        """Arrival times of the stored output."""
        return Arrivals(self._ends, self._unix_ns)

    @property
    def failed(self) -> OSError | None:
        """Error of the disk, if not all output was stored; None: no error."""
        return self._failed

    @property
    def not_passed_on(self) -> OSError | None:
        """Error of standard output, if not all was passed on; a closed reader is not an error."""
        return self._not_passed_on

    def settle(self) -> None:
        """Retry writing what the disk had no room for; if that fails again, remove the file."""
        if self._unwritten:
            self._keep(b"")
            self._close()
        if self._failed is not None:
            self.kept.unlink(missing_ok=True)

    def _pass_on(self) -> None:
        try:
            is_read = True
            while is_read and (chunk := self._read()):
                now_ns = time.time_ns()
                room = KEPT_BYTES - self.total_bytes
                self.total_bytes += len(chunk)
                is_read = self._write(chunk)
                if room > 0:
                    self._keep(chunk[:room])
                    self._ends.append(self.total_bytes)
                    self._unix_ns.append(now_ns)
        finally:
            os.close(self._from)  # a program that keeps writing gets SIGPIPE, as without the tee

    def _keep(self, part: bytes) -> None:
        """Write the buffered output and `part`. What the disk refuses is buffered in memory."""
        self._unwritten += part
        try:
            if self._file is None:
                self._file = io.FileIO(self.kept, "a")  # unbuffered, so that a full disk raises here
            while self._unwritten:
                del self._unwritten[: self._file.write(self._unwritten)]
        except OSError as error:
            self._failed = error
        else:
            self._failed = None

    def _close(self) -> None:
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self._failed = error
            self._file = None

    def _write(self, chunk: bytes) -> bool:
        """Write to standard output; return False if its reader is gone."""
        rest = memoryview(chunk if self._not_passed_on is None else b"")
        while rest:
            try:
                rest = rest[os.write(STDOUT, rest) :]
            except BlockingIOError:
                select.select([], [STDOUT], [])
            except BrokenPipeError:
                return False
            except (
                OSError
            ) as error:  # for example a full disk: the program does not notice, and its output is still stored
                self._not_passed_on = error
                return True
        return True

    def _read(self) -> bytes:
        """Return the next output; empty: the end."""
        while True:
            ready, _, _ = select.select([self._from, self._over], [], [])
            if self._from not in ready:  # the program has ended; another process may still hold the pipe
                ready, _, _ = select.select([self._from], [], [], 0)
                if not ready:
                    return b""
            try:
                return os.read(self._from, CHUNK_BYTES)
            except OSError as error:
                if error.errno == errno.EIO:  # no process has the pseudo-terminal open any more (pty(7))
                    return b""
                raise


def _pseudo_terminal() -> tuple[int, int]:
    """Open a pseudo-terminal with the settings of standard output's terminal, but without output processing."""
    ours, programs = os.openpty()
    settings = termios.tcgetattr(STDOUT)
    settings[1] &= ~termios.OPOST  # the real terminal does that
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(programs, termios.TCSANOW, settings)
    size = fcntl.ioctl(STDOUT, termios.TIOCGWINSZ, bytes(8))
    fcntl.ioctl(programs, termios.TIOCSWINSZ, size)
    return ours, programs
