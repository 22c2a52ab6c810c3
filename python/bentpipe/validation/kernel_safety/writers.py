"""Who writes the clock of a kernel while a download lasts: a thread, or `bentpipe clock`, which is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
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


class Writer(threading.Thread):
    """Writes a clock at its times, counted from the start of a path [ns since 1970]; withdraws it in the end."""

    def __init__(self, writes: Sequence[ClockWrite], begin_unix_ns: int) -> None:
        """Write nothing yet."""
        super().__init__()
        self._writes, self._begin_ns = writes, begin_unix_ns - wall_clock_ns()
        self._ended = threading.Event()

    def run(self) -> None:
        """Write until `stop`."""
        maps = HostClockMaps()
        try:
            for write in self._writes:
                due_ns, period_ns, at_ns, until_ns = write.in_ns()
                if self._ended.wait(max(self._begin_ns + due_ns - time.monotonic_ns(), 0) / NS_PER_S):
                    return
                maps.write(Hint(period_ns, self._begin_ns + at_ns), self._begin_ns + until_ns)
            self._ended.wait()
        finally:
            maps.withdraw()

    def stop(self) -> None:
        """End, and wait for it."""
        self._ended.set()
        self.join()


class Killed(threading.Thread):
    """Runs `bentpipe clock --profile` and kills it after a time.

    Attributes:
        valid_s: How long the record that it left was still valid; None: there was none.
    """

    def __init__(self, file: Path, begin_unix_ns: int, kill_s: float) -> None:
        """Take the Profile's file, the time at which its beginning is emulated, and that of the kill after it."""
        super().__init__()
        self._file, self._begin_unix_ns, self._kill_s = file, begin_unix_ns, kill_s
        self._ended = threading.Event()
        self.valid_s: float | None = None

    def run(self) -> None:
        """Start it, and kill it when it is time, or at `stop`."""
        command = [sys.executable, "-P", "-m", "bentpipe", "clock", "--profile", str(self._file)]
        start = format_utc(self._begin_unix_ns)
        with subprocess.Popen([*command, "--start", start], stdout=subprocess.DEVNULL) as process:
            kill_ns = self._begin_unix_ns - wall_clock_ns() + round(self._kill_s * NS_PER_S)
            self._ended.wait(max(kill_ns - time.monotonic_ns(), 0) / NS_PER_S)
            process.send_signal(signal.SIGKILL)
        left_ns = [each.until_ns for each in read_records().values() if each.period_ns]
        if left_ns:
            self.valid_s = max(max(left_ns) - time.monotonic_ns(), 0) / NS_PER_S

    def stop(self) -> None:
        """End, and wait for it; the next one withdraws what is left."""
        self._ended.set()
        self.join()
        HostClockMaps().withdraw()


@contextmanager
def stored(path: Profile, folder: Path) -> Iterator[Path]:
    """Store a Profile for `Killed`. Raises `UserError`: a controller's clock is kept by another program."""
    now_ns = time.monotonic_ns()
    if any(each.is_valid(now_ns) for each in read_records().values()):
        raise UserError("another program keeps the clock of this host", hint="end `bentpipe clock` first")
    file = folder / "path.parquet"
    write_profile(path, file)
    yield file
