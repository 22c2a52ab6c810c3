"""The way of rows from the Runs in progress to their reader.

A simulation waits for its reader: its time is virtual. An emulation is in real time and cannot: rows for which there is
no room are dropped, and a row says how many.
"""

from __future__ import annotations

import contextlib
import queue
import re
import threading
from typing import TYPE_CHECKING, Protocol

from bentpipe.files import write_error
from bentpipe.runs.rows import RunKey, RunLines

if TYPE_CHECKING:
    import os
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
    """Gives the rows of one Run to the reader's queue."""

    def __init__(self, give: GiveRows, run: RunKey, *, real_time: bool) -> None:
        """Take the queue and the Run; in `real_time` rows are dropped where the queue is full."""
        self._give, self._lines, self._real_time = give, RunLines(run), real_time
        self._dropped = 0

    def add(self, lines: bytes) -> None:
        """Give lines of JSON of the driver."""
        whole = self._lines.add(lines)
        if self._dropped:
            whole = self._lines.dropped(self._dropped) + whole
        if self._give(whole, wait=not self._real_time):
            self._dropped = 0
        else:
            self._dropped += lines.count(b"\n")

    def end(self, why_invalid: str | None) -> None:
        """Give the last row; the Run is over, so this waits for room."""
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
    """Yield a function that writes rows to a file, a line of JSON each, at once; an existing file is replaced.

    Raises:
        UserError: The file cannot be opened.
        StoreError: The disk is full or fails.
        BrokenPipeError: The file is a pipe, and its reader closed it.
    """
    try:
        # Without a buffer: a reader sees a row at once, and a failed write is not tried again when the file is closed.
        file = open(path, "wb", buffering=0)  # noqa: PTH123, SIM115 - closed below
    except OSError as error:
        raise write_error(path, error) from error

    def write(lines: bytes) -> None:
        rest = memoryview(escaped(lines))
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise write_error(path, error) from error

    with file:
        yield write
