"""Probing session: starts the engine, records and shows its messages, and makes the Run at the end."""

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
from bentpipe.measurements.probing.conversion import finish
from bentpipe.measurements.probing.live_table import LiveTable
from bentpipe.measurements.probing.recording import ProbeRequest, Recording
from bentpipe.measurements.runs.store import MeasuredRun

#: Longest time before a row is written to disk [s]. Chosen here: half of the acceptable loss; the rest is for a slow
#: disk.
FLUSH_S = 0.4
#: A Run is made after a day, or after this number of rows, for which a gigabyte of memory suffices. Chosen here.
RUN_S, RUN_ROWS = 86_400, 4_000_000
_READ_BYTES = 1 << 20


class Session:
    """A probing session of one command.

    Args:
        request: What to probe.
        out: Folder for Runs.
        on_note: Receives one-line notes for the user.
        run_rows: Number of rows after which a Run is made.
        engine: An engine of `start_engine` that waits for its spec; None: `run` starts one.

    Attributes:
        live_table: Progress for the terminal.

    Raises:
        UserError: The folder cannot be written.
    """

    def __init__(
        self,
        request: ProbeRequest,
        out: str | os.PathLike[str],
        on_note: Callable[[str], None],
        *,
        run_rows: int = RUN_ROWS,
        engine: subprocess.Popen[bytes] | None = None,
    ) -> None:
        """Store the parameters; starts nothing."""
        self._engine = engine
        self.live_table = LiveTable(request.spec)
        self._request, self._out, self._note, self._run_rows = request, Path(out), on_note, run_rows
        self._recording: Recording | None = None
        self._rows, self._began_s, self._flushed_s = 0, 0.0, 0.0
        self._counts: dict[str, Any] | None = None
        self._counts_before: dict[str, Any] | None = None
        self._converters: list[subprocess.Popen[bytes]] = []

    def run(self) -> MeasuredRun | None:
        """Probe until the end or Ctrl-C, and make the Run; None: nothing was sent.

        A second Ctrl-C does not wait for pending answers.

        Raises:
            UserError: The engine cannot run: no permission, no reflector.
            BentpipeError: The engine was killed; there is a Run of the probes before.
            StoreError: A write to the disk fails; flushed rows stay in the recording.
        """
        with (
            _running(self._engine or start_engine(), self._request.spec.to_json()) as process,
            _interrupts(process) as interrupts,
        ):
            assert process.stdout is not None
            for lines in _lines(process.stdout.fileno()):
                self._take(lines)
            self._flush(at_once=True)
        run = self._end()
        if process.returncode and interrupts.count < 2:
            stored = "nothing was stored" if run is None else f"earlier probes are stored in {run.path}"
            raise BentpipeError(f"the probing process ended with exit code {process.returncode}; {stored}")
        return run

    def _take(self, lines: list[bytes]) -> None:
        """Handle lines from the engine; `lines` is empty after a timeout."""
        for line in lines:
            self._handle(json.loads(line))
        self._flush()
        is_due = self._rows >= self._run_rows or (self._rows and time.monotonic() - self._began_s >= RUN_S)
        if is_due and self._recording is not None and not self._recording.is_waiting:
            self._next_run()

    def _handle(self, message: list[Any]) -> None:
        kind, *rest = message
        if kind == "x":
            raise UserError(rest[0])
        if kind == "s":
            self._begin(rest[0])
            return
        assert self._recording is not None
        if kind == "p":
            target, seq, unix_ns, rtt_ns, up_ns, down_ns, flags, late_ns, cause = rest
            self._recording.add("probes", (unix_ns, target, seq, rtt_ns, up_ns, down_ns, flags, late_ns, cause))
            self.live_table.probe(target, rtt_ns, flags, late_ns, cause)
            self._rows += 1
        elif kind == "h":
            target, unix_ns, ttl, address, rtt_ns, late_ns = rest
            self._recording.add("hops", (unix_ns, target, ttl, address, rtt_ns, late_ns))
            self.live_table.hop(target, unix_ns, ttl, address, rtt_ns)
            self._rows += 1
        elif kind == "e":
            unix_ns, event, target, text, by_s = rest
            self._recording.add("events", (unix_ns, event, target, text, by_s))
            self._note(text)
        elif kind == "c":
            self._counted(rest[0])

    def _counted(self, counts: dict[str, Any]) -> None:
        self.live_table.set_counts(counts)
        if counts != self._counts:
            self._counts = counts
            self._keep_counts()

    def _keep_counts(self, **other: Any) -> None:  # noqa: ANN401 - as counts have it
        if self._counts is not None and self._recording is not None:
            since = _difference(self._counts, self._counts_before) | other
            self._recording.add("counts", (time.time_ns(), json.dumps(since)))

    def _begin(self, unix_ns: int) -> None:
        self._recording = Recording(self._out, self._request, unix_ns, self._note)
        self._rows, self._began_s = 0, time.monotonic()

    def _flush(self, *, at_once: bool = False) -> None:
        if self._recording is not None and (at_once or time.monotonic() - self._flushed_s >= FLUSH_S):
            self._recording.flush()
            self._flushed_s = time.monotonic()

    def _next_run(self) -> None:
        """Start a low-priority process that makes a Run of the recording so far, and continue in a new recording."""
        assert self._recording is not None
        self._keep_counts(over=True)
        self._recording.close()
        command = [sys.executable, "-m", "bentpipe.measurements.probing.conversion", str(self._recording.folder)]
        environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
        self._converters.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment, process_group=0))
        self._converters = [process for process in self._converters if process.poll() is None]
        self._request = replace(self._request, part=self._request.part + 1)
        self._counts_before = self._counts
        self._begin(time.time_ns())

    def _end(self) -> MeasuredRun | None:
        for process in self._converters:
            process.wait()
        if self._recording is None:
            return None
        self._recording.close()
        return finish(self._recording.folder)


def _difference(counts: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """Return the counts since the preceding Run."""
    if before is None:
        return counts
    since = dict(counts)
    for name in ("skipped", "late_answers", "lost_up", "far_overruns", "far_refused"):
        pairs = zip(counts[name], before[name], strict=True)
        since[name] = [None if now is None else now - then for now, then in pairs]
    since["overruns"] = counts["overruns"] - before["overruns"]
    return since


@dataclass
class _Interrupts:
    """Number of SIGINT and SIGTERM signals received."""

    count: int = 0


@contextlib.contextmanager
def _interrupts(process: subprocess.Popen[bytes]) -> Iterator[_Interrupts]:
    """End the engine on Ctrl-C and SIGTERM; the second signal does not wait for pending answers."""
    seen = _Interrupts()

    def on_signal(number: int, frame: object) -> None:
        del number, frame
        seen.count += 1
        assert process.stdin is not None
        if seen.count == 1:
            process.stdin.close()
        else:
            process.kill()

    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield seen
        return
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def start_engine() -> subprocess.Popen[bytes]:
    """Start an engine process, which waits for its `Spec`; its Python takes a fifth of a second or more.

    Ctrl-C does not reach it. When this process ends, its standard input closes, which ends it too.
    """
    command = [sys.executable, "-m", "bentpipe.measurements.probing.engine"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)


@contextlib.contextmanager
def _running(engine: subprocess.Popen[bytes], spec: str) -> Iterator[subprocess.Popen[bytes]]:
    """Give an engine its `Spec`, and end it."""
    with engine as process:
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
    """Yield whole lines as they arrive; an empty list if none arrived for `FLUSH_S`."""
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
