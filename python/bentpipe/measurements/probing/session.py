"""The session: starts the engine, keeps what it says, shows it, and makes the Run at the end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bentpipe.errors import BentpipeError, UserError
from bentpipe.measurements.probing.finishing import finish
from bentpipe.measurements.probing.picture import Picture
from bentpipe.measurements.probing.recording import Asked, Recording
from bentpipe.measurements.runs.store import MeasuredRun

#: Longest time that a row waits for the disk [s]. Chosen here: half of what may be lost; a slow disk needs some too.
FLUSH_S = 0.4
#: A Run is made after a day, or after as many rows: what one gigabyte of memory makes a Run of. Chosen here.
RUN_S, RUN_ROWS = 86_400, 4_000_000
_READ_BYTES = 1 << 20


class Session:
    """One command's probing.

    Args:
        asked: What.
        out: Folder for Runs.
        on_note: Told what the user should know at once, a line each.
        run_rows: After how many rows a Run is made of what there is.

    Attributes:
        picture: How it goes.

    Raises:
        UserError: The folder cannot be written.
    """

    def __init__(
        self, asked: Asked, out: str | os.PathLike[str], on_note: Callable[[str], None], *, run_rows: int = RUN_ROWS
    ) -> None:
        """Starts nothing."""
        self.picture = Picture(asked.spec)
        self._asked, self._out, self._note, self._run_rows = asked, Path(out), on_note, run_rows
        self._recording: Recording | None = None
        self._rows, self._began_s, self._flushed_s = 0, 0.0, 0.0
        self._counts: dict[str, Any] | None = None
        self._counts_before: dict[str, Any] | None = None
        self._finishers: list[subprocess.Popen[bytes]] = []

    def run(self) -> MeasuredRun | None:
        """Probes until it is over or Ctrl-C, and makes the Run; None: nothing was sent.

        A second Ctrl-C does not wait for answers that are under way.

        Raises:
            UserError: The engine cannot: no permission, nobody there.
            BentpipeError: The engine was killed; there is a Run of what came before.
            StoreError: The disk refuses; what was flushed stays in the recording.
        """
        with _engine(self._asked.spec.to_json()) as process, _interrupts(process) as interrupts:
            assert process.stdout is not None
            for lines in _lines(process.stdout.fileno()):
                self._take(lines)
            self._flush(at_once=True)
        run = self._end()
        if process.returncode and interrupts.count < 2:
            what = "nothing was kept" if run is None else f"what came before is kept in {run.path}"
            raise BentpipeError(f"the process that probes ended with exit code {process.returncode}; {what}")
        return run

    def _take(self, lines: list[bytes]) -> None:
        """Lines from the engine, or none within a while."""
        for line in lines:
            self._hear(json.loads(line))
        self._flush()
        is_due = self._rows >= self._run_rows or (self._rows and time.monotonic() - self._began_s >= RUN_S)
        if is_due and self._recording is not None and not self._recording.is_waiting:
            self._next_run()

    def _hear(self, said: list[Any]) -> None:
        what, *rest = said
        if what == "x":
            raise UserError(rest[0])
        if what == "s":
            self._begin(rest[0])
            return
        assert self._recording is not None
        if what == "p":
            target, seq, unix_ns, rtt_ns, up_ns, down_ns, flags, late_ns, cause = rest
            self._recording.add("probes", (unix_ns, target, seq, rtt_ns, up_ns, down_ns, flags, late_ns, cause))
            self.picture.probe(target, rtt_ns, flags, late_ns, cause)
            self._rows += 1
        elif what == "h":
            target, unix_ns, ttl, address, rtt_ns, late_ns = rest
            self._recording.add("hops", (unix_ns, target, ttl, address, rtt_ns, late_ns))
            self.picture.hop(target, unix_ns, ttl, address, rtt_ns)
            self._rows += 1
        elif what == "e":
            unix_ns, kind, target, text, by_s = rest
            self._recording.add("events", (unix_ns, kind, target, text, by_s))
            self._note(text)
        elif what == "c":
            self._counted(rest[0])

    def _counted(self, counts: dict[str, Any]) -> None:
        self.picture.counted(counts)
        if counts != self._counts:
            self._counts = counts
            self._keep_counts()

    def _keep_counts(self, **other: Any) -> None:  # noqa: ANN401 - as counts have it
        if self._counts is not None and self._recording is not None:
            since = _less(self._counts, self._counts_before) | other
            self._recording.add("counts", (time.time_ns(), json.dumps(since)))

    def _begin(self, unix_ns: int) -> None:
        self._recording = Recording(self._out, self._asked, unix_ns, self._note)
        self._rows, self._began_s = 0, time.monotonic()

    def _flush(self, *, at_once: bool = False) -> None:
        if self._recording is not None and (at_once or time.monotonic() - self._flushed_s >= FLUSH_S):
            self._recording.flush()
            self._flushed_s = time.monotonic()

    def _next_run(self) -> None:
        """Has a Run made of what there is, by a process that takes no time from the engine; goes on in another one."""
        assert self._recording is not None
        self._keep_counts(over=True)
        self._recording.close()
        command = [sys.executable, "-m", "bentpipe.measurements.probing.finishing", str(self._recording.folder)]
        environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
        self._finishers.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment, process_group=0))
        self._finishers = [process for process in self._finishers if process.poll() is None]
        self._asked = replace(self._asked, part=self._asked.part + 1)
        self._counts_before = self._counts
        self._begin(time.time_ns())

    def _end(self) -> MeasuredRun | None:
        for process in self._finishers:
            process.wait()
        if self._recording is None:
            return None
        self._recording.close()
        return finish(self._recording.folder)


def _less(counts: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """Counts since a Run before."""
    if before is None:
        return counts
    found = dict(counts)
    for name in ("skipped", "late_answers", "lost_up", "far_overruns", "far_refused"):
        pairs = zip(counts[name], before[name], strict=True)
        found[name] = [None if now is None else now - then for now, then in pairs]
    found["overruns"] = counts["overruns"] - before["overruns"]
    return found


@dataclass
class _Interrupts:
    """How often the user, or a service manager, expected the end."""

    count: int = 0


@contextlib.contextmanager
def _interrupts(process: subprocess.Popen[bytes]) -> Iterator[_Interrupts]:
    """Ctrl-C and SIGTERM end the engine; the second time without waiting for answers under way."""
    seen = _Interrupts()

    def told(number: int, frame: object) -> None:
        del number, frame
        seen.count += 1
        assert process.stdin is not None
        if seen.count == 1:
            process.stdin.close()
        else:
            process.kill()

    if threading.current_thread() is not threading.main_thread():  # only there can signals be had
        yield seen
        return
    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _engine(spec: str) -> Iterator[subprocess.Popen[bytes]]:
    """The engine's process, told what to do. Ctrl-C does not reach it; what ends us closes its input and so ends it."""
    command = [sys.executable, "-m", "bentpipe.measurements.probing.engine"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0) as process:
        try:
            assert process.stdin is not None
            process.stdin.write(spec.encode() + b"\n")
            process.stdin.flush()
            yield process
        except BaseException:
            process.kill()
            raise
        finally:
            if process.stdin is not None and not process.stdin.closed:
                process.stdin.close()


def _lines(pipe: int) -> Iterator[list[bytes]]:
    """Whole lines as they come; an empty list where none came for `FLUSH_S`."""
    rest = b""
    while True:
        if not select.select([pipe], [], [], FLUSH_S)[0]:
            yield []
            continue
        data = os.read(pipe, _READ_BYTES)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield lines
