"""The way of rows from the Runs in progress to their reader.

A simulation waits for its reader: its time is virtual. An emulation is in real time and cannot: rows for which there is
no room are dropped, and a row says how many.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import stat
import threading
from typing import TYPE_CHECKING, Protocol

from bentpipe.errors import BentpipeError
from bentpipe.files import write_error
from bentpipe.runs.rows import RunKey, RunLines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    OnRows = Callable[[bytes], object]
    """Called with lines of JSON, each a row with its Run."""

QUEUED = 4096
"""Largest number of parts (of lines) that wait for the reader. Chosen here: minutes of an emulated Run of two flows."""


class GiveRows(Protocol):
    """Puts lines into the reader's queue."""

    def __call__(self, lines: bytes, *, wait: bool) -> bool:
        """Put them; tell whether there was room. With `wait`, wait for room."""


class RunRows:
    """Gives the rows of one Run to the reader's queue.

    Attributes:
        why_invalid: Why the Run is not valid, for the last row; None: it is.
    """

    def __init__(self, give: GiveRows, run: RunKey, *, real_time: bool) -> None:
        """Take the queue and the Run; in `real_time` rows are dropped where the queue is full."""
        self._give, self._lines, self._real_time = give, RunLines(run), real_time
        self._dropped = 0
        self.why_invalid: str | None = None

    def add(self, lines: bytes) -> None:
        """Give lines of JSON of the driver."""
        whole = self._lines.add(lines)
        if self._dropped:
            whole = self._lines.dropped(self._dropped) + whole
        if self._give(whole, wait=not self._real_time):
            self._dropped = 0
        else:
            self._dropped += lines.count(b"\n")

    @contextlib.contextmanager
    def with_end(self) -> Iterator[None]:
        """Give the last row after the block, which makes and stores the Run, or the error with which it failed."""
        try:
            yield
        except BentpipeError as error:
            self.end(str(error))
            raise
        self.end(self.why_invalid)

    def end(self, why_invalid: str | None) -> None:
        """Give the last row of the Run, or of a try of it; nothing is in real time then, so this waits for room."""
        dropped = self._lines.dropped(self._dropped) if self._dropped else b""
        self._dropped = 0
        self._give(dropped + self._lines.end(why_invalid), wait=True)


class RowThread:
    """Calls a function with rows in a thread of its own, so that a slow one does not slow an emulation.

    Use it as a context manager: its end waits until the function has all rows, and raises the function's error, except
    that of a pipe whose reader is gone. After an error the function gets no more rows.
    """

    def __init__(self, on_rows: OnRows) -> None:
        """Take the function."""
        self._on_rows = on_rows
        self._queue: queue.Queue[bytes | None] = queue.Queue(QUEUED)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="rows", daemon=True)

    def give(self, lines: bytes, *, wait: bool) -> bool:
        """Put lines into the queue, as `GiveRows`."""
        try:
            self._queue.put(lines, block=wait)
        except queue.Full:
            return False
        return True

    def __enter__(self) -> RowThread:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Wait for the thread; raise its error, unless the block has one."""
        self._queue.put(None)
        self._thread.join()
        if self._error is not None and error is None and not isinstance(self._error, BrokenPipeError):
            raise self._error

    def _run(self) -> None:
        while (lines := self._queue.get()) is not None:
            if self._error is not None:
                continue
            try:
                self._on_rows(lines)
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
                self._error = error


_NOT_IN_JSON = re.compile(rb"\x7f|\xc2[\x80-\x9f]")
"""Control characters that JSON allows, in UTF-8. A terminal could take them for commands."""


def escaped(lines: bytes) -> bytes:
    r"""Return lines of JSON in which every control character is escaped, as ``\u009b``."""
    return _NOT_IN_JSON.sub(lambda match: b"\\u%04x" % ord(match[0].decode()), lines)


@contextlib.contextmanager
def row_file(path: str | os.PathLike[str]) -> Iterator[OnRows]:
    """Yield a function that writes rows to a file, a line of JSON each, at once.

    An existing file is replaced with the first rows, or at the end of the block if there are none. A block that fails
    before that, as a race that is refused, leaves it unchanged.

    Raises:
        UserError: The file cannot be opened.
        StoreError: The disk is full or fails.
        BrokenPipeError: The file is a pipe, and its reader closed it.
    """
    is_new = not os.path.lexists(path)
    is_begun = False

    def begin() -> None:
        nonlocal is_begun
        if not is_begun and stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a pipe or a device has no length
            file.truncate(0)
        is_begun = True

    def write(lines: bytes) -> None:
        rest = memoryview(escaped(lines))
        try:
            begin()
            while rest:
                rest = rest[file.write(rest) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise write_error(path, error) from error

    try:
        # Without a buffer: a reader sees a row at once, and a failed write is not tried again when the file is closed.
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666), "wb", buffering=0)
    except OSError as error:
        raise write_error(path, error) from error
    with file:
        try:
            yield write
        except BaseException:
            if is_new and not is_begun:
                os.unlink(path)  # noqa: PTH108 - the path may be bytes
            raise
        begin()
