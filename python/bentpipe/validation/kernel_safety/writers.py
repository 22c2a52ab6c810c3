"""Who writes the clock of a kernel while a download lasts: a thread, or `bentpipe clock`, which is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.kernel.clock.record import Hint, HostClockMaps, read_records, wall_clock_ns
from bentpipe.profiles.parquet import write_profile
from bentpipe.times import format_utc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bentpipe._native import Profile
    from bentpipe.execution.host_clock import ClockWrite

NS_PER_S = 10**9
COMMAND = (sys.executable, "-P", "-m", "bentpipe", "clock")


class ClockThread(threading.Thread, ABC):
    """Keeps a clock of one controller while a download lasts.

    Attributes:
        error: What ended it early; None: nothing. The Run beside it is then invalid.
    """

    def __init__(self, controller: str, begin_unix_ns: int) -> None:
        """Take the controller's name in the kernel, and when the path begins [ns since 1970]; write nothing yet."""
        super().__init__()
        self.controller, self.begin_ns = controller, begin_unix_ns - wall_clock_ns()
        self.error: Exception | None = None
        self._ended = threading.Event()

    @abstractmethod
    def keep(self) -> None:
        """Do its work until `stop`."""

    def run(self) -> None:
        """Do its work; store the error that ends it."""
        try:
            self.keep()
        except Exception as error:  # noqa: BLE001 - whatever it is, there was no clock as claimed
            self.error = error

    def ended_at(self, time_ns: int) -> bool:
        """Wait until a time after the path's beginning [ns], or `stop`; return whether that was called."""
        return self._ended.wait(max(self.begin_ns + time_ns - time.monotonic_ns(), 0) / NS_PER_S)

    def wait_for_stop(self) -> None:
        """Wait until `stop` is called."""
        self._ended.wait()

    def stop(self) -> None:
        """End, and wait for it."""
        self._ended.set()
        self.join()

    def why_invalid(self) -> str | None:
        """Return why the Run beside it says nothing about the clock; None: the controller had it."""
        return f"its clock failed: {self.error}" if self.error is not None else None


class Writer(ClockThread):
    """Writes a clock at its times, counted from the path's beginning; withdraws it in the end.

    Attributes:
        written: How many of the writes reached the controller's map.
    """

    def __init__(self, writes: Sequence[ClockWrite], controller: str, begin_unix_ns: int) -> None:
        """Take the writes of a Run, and the rest as `ClockThread`."""
        super().__init__(controller, begin_unix_ns)
        self._writes, self.written = writes, 0

    def keep(self) -> None:
        """Write until `stop`."""
        maps = HostClockMaps()
        try:
            for write in self._writes:
                due_ns, period_ns, at_ns, until_ns = write.in_ns()
                if self.ended_at(due_ns):
                    return
                names = maps.write(Hint(period_ns, self.begin_ns + at_ns), self.begin_ns + until_ns)
                self.written += self.controller in names
            self.wait_for_stop()
        finally:
            maps.withdraw()

    def why_invalid(self) -> str | None:
        """Return why the Run says nothing; None: each record was in the controller's map."""
        if (why := super().why_invalid()) or self.written == len(self._writes):
            return why
        return f"{self.controller} had {self.written} of the {len(self._writes)} records of its clock"


class Killed(ClockThread):
    """Runs `bentpipe clock --profile` and kills it after a time.

    Attributes:
        valid_s: How long the record that it left in the controller's map was still valid; None: there was none.
    """

    def __init__(self, file: Path, controller: str, begin_unix_ns: int, kill_s: float) -> None:
        """Take the Profile's file and the time of the kill after its beginning, and the rest as `ClockThread`."""
        super().__init__(controller, begin_unix_ns)
        self._file, self._start, self._kill_s = file, format_utc(begin_unix_ns), kill_s
        self.valid_s: float | None = None

    def keep(self) -> None:
        """Start it, and kill it when it is time, or at `stop`."""
        command = [*COMMAND, "--profile", str(self._file), "--start", self._start]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            self.ended_at(round(self._kill_s * NS_PER_S))
            code = process.poll()
            process.send_signal(signal.SIGKILL)
        if code is not None:
            raise UserError(f"bentpipe clock ended with {code} before it was killed")
        record, now_ns = read_records().get(self.controller), time.monotonic_ns()
        if record is not None and record.is_valid(now_ns):
            self.valid_s = (record.until_ns - now_ns) / NS_PER_S

    def stop(self) -> None:
        """End, and wait for it; withdraw what is left. Raises `KernelRefusedError`."""
        super().stop()
        HostClockMaps().withdraw()

    def why_invalid(self) -> str | None:
        """Return why the Run says nothing; None: the killed program had left a valid record."""
        if (why := super().why_invalid()) or self.valid_s is not None:
            return why
        return f"the killed program had left no valid clock for {self.controller}"


@contextmanager
def stored(path: Profile, folder: Path) -> Iterator[Path]:
    """Store a Profile for `Killed`. Raises `UserError`: a controller's clock is kept by another program."""
    now_ns = time.monotonic_ns()
    if any(each.is_valid(now_ns) for each in read_records().values()):
        raise UserError("another program keeps the clock of this host", hint="end `bentpipe clock` first")
    file = folder / "path.parquet"
    write_profile(path, file)
    yield file
