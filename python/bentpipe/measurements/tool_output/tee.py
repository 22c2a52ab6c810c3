"""What a program writes to its standard output: passed on at once and unchanged, and kept."""

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
"""Most that is kept; what is longer is a download, not a result."""

CHUNK_BYTES = 1 << 16
"""As much as a pipe of Linux holds (pipe(7))."""

STDOUT = 1


class Tee:
    """Between a program and this process's standard output; to be entered before the program starts.

    The program gets `stdout`: a pipe where standard output is none of a terminal. Where it is a terminal, a program of
    `bentpipe.measurements.readers.TOOLS` gets a pseudo-terminal of the same kind (so it writes line by line, as it
    would), and any other gets the terminal itself (`stdout` is None, nothing is kept): it may be a shell, or draw on
    the screen.
    """

    def __init__(self, command: Sequence[str], kept: Path) -> None:
        """`command` is the program's; `kept` the file that is written, if anything comes."""
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
            self._close()

    @property
    def arrivals(self) -> Arrivals:
        """When each part of what is kept was written."""
        return Arrivals(self._ends, self._unix_ns)

    @property
    def failed(self) -> OSError | None:
        """Why not all was kept, if it was the disk's fault."""
        return self._failed

    @property
    def not_passed_on(self) -> OSError | None:
        """Why not all was passed on, if standard output refused it; that nobody reads any more is no such refusal."""
        return self._not_passed_on

    def settle(self) -> None:
        """Write what the disk had no room for, now that it may have; if it still has none, keep nothing."""
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
            os.close(self._from)  # a program that writes on hears that nobody reads, as it would

    def _keep(self, part: bytes) -> None:
        """Write `part` behind all that is not written yet. What the disk refuses waits in memory."""
        self._unwritten += part
        try:
            if self._file is None:
                self._file = io.FileIO(self.kept, "a")  # not buffered: a full disk is to be heard of here
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
        """Pass on; False: nobody reads any more."""
        rest = memoryview(chunk if self._not_passed_on is None else b"")
        while rest:
            try:
                rest = rest[os.write(STDOUT, rest) :]
            except BlockingIOError:
                select.select([], [STDOUT], [])
            except BrokenPipeError:
                return False
            except OSError as error:  # a full disk, say: the program is none the wiser, and what it says is kept
                self._not_passed_on = error
                return True
        return True

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
