"""The process that sends and receives: ``python -m bentpipe.measurements.probing.engine``, started by `session`.

It reads a `Spec` as the first line of its standard input, and ends when that is closed. It writes messages to its
standard output, one JSON list per line, whose first element is the type:

- ``"s"``: start; when the first probe is due [ns since 1970].
- ``"p"``: the outcome of a probe, as `tracker.Row`.
- ``"h"``: a hop, as `trace.Hop`.
- ``"e"``: an event: time [ns since 1970], kind, target or None, text, size [s].
- ``"c"``: counts: one object, as `Counts`; every second and at the end.
- ``"x"``: an error message; the engine cannot run.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import io
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any, Protocol, TypedDict

from bentpipe.errors import UserError
from bentpipe.measurements.probing.clocks import Clocks
from bentpipe.measurements.probing.icmp import IcmpSocket
from bentpipe.measurements.probing.loop import TICK_NS, Loop
from bentpipe.measurements.probing.owd import Owd
from bentpipe.measurements.probing.ping import Ping
from bentpipe.measurements.probing.spec import Spec, Target
from bentpipe.measurements.probing.tcp import TIMEOUT_NS as TCP_TIMEOUT_NS
from bentpipe.measurements.probing.tcp import Tcp
from bentpipe.measurements.probing.trace import Trace
from bentpipe.measurements.probing.tracker import ProbeTracker, Row

#: Time from process start to the first probe [ns]: sockets are open and Python is warm by then.
_HEAD_START_NS = 50_000_000
#: Size of the pipe to the session [bytes]: half a minute of a thousand probes a second, for a slow disk.
_PIPE_BYTES = 1 << 20
_COUNT_TICKS = 20
#: Largest rate at which this process gets real-time priority [probes/s]. Chosen here: it uses a fifth of a processor.
_REAL_TIME_PER_S = 1000


class Counts(TypedDict):
    """Counters of the engine.

    Attributes:
        skipped: For each target, probes not sent because the next one was already due.
        late_answers: For each target, answers to probes already marked lost.
        lost_up: For each target of ``owd``, probes that the reflector did not receive; None for others.
        far_overruns: For each target of ``owd``, datagrams dropped at the reflector's full buffer; None for others.
        far_refused: For each target of ``owd``, probes over the reflector's rate limit; None for others.
        same_clock: For each target of ``owd``, whether the reflector is on this machine; None for others.
        overruns: Packets dropped at a full socket buffer of this machine.
        over: Whether these are the final counts.
    """

    skipped: list[int]
    late_answers: list[int]
    lost_up: list[int | None]
    far_overruns: list[int | None]
    far_refused: list[int | None]
    same_clock: list[bool | None]
    overruns: int
    over: bool


class Prober(Protocol):
    """A probing method for one target."""

    tracker: ProbeTracker

    def send(self, seq: int, late_ns: int) -> None:
        """Send a probe."""

    def tick(self) -> None:
        """Do periodic work, about 20 times a second, after the tracker marked timed-out probes lost."""

    def close(self) -> None:
        """Release resources at the end."""


class Engine:
    """Sends probes according to a `Spec`, until its duration is over or standard input is closed."""

    def __init__(self, spec: Spec) -> None:
        """Open the sockets.

        Raises:
            UserError: Missing permission or protocol support, or a reflector that does not answer.
        """
        self._spec, self._loop, self._clocks, self._out = spec, Loop(), Clocks(), _Out()
        self._sockets: dict[int, IcmpSocket] = {}
        self._skipped = [0] * len(spec.targets)
        self._probers = [self._prober(number, target) for number, target in enumerate(spec.targets)]
        self._ticks = 0
        self._begin_ns = time.monotonic_ns() + _HEAD_START_NS
        self._last_due_ns: int | None = None if spec.for_ns is None else self._begin_ns + spec.for_ns
        self._ending = False
        self._planned = 0

    def run(self) -> None:
        """Send probes until the end; end early when standard input is closed."""
        self._loop.watch(0, self._on_input_closed, select.EPOLLIN | select.EPOLLHUP)
        lead_ns = self._begin_ns - time.monotonic_ns()
        self._out.write(["s", time.time_ns() + lead_ns])
        self._count()
        for number in range(len(self._probers)):
            # All targets share one schedule: they take turns within an interval.
            self._plan(number, 0, self._begin_ns + number * self._spec.every_ns // len(self._probers))
        self._loop.at(self._begin_ns, self._tick)
        gc.collect()
        gc.freeze()
        gc.disable()  # this code creates no reference cycles, and a collection would delay probes
        self._loop.run()
        self._count(over=True)
        for prober in self._probers:
            prober.close()
        self._out.drain()

    def _prober(self, number: int, target: Target) -> Prober:
        method = self._spec.method
        if method == "tcp":
            return Tcp(self._loop, target, ProbeTracker(number, self._write_outcome, self._clocks, TCP_TIMEOUT_NS))
        if method == "owd":
            return Owd(self._loop, target, ProbeTracker(number, self._write_outcome, self._clocks))
        if target.version not in self._sockets:
            self._sockets[target.version] = IcmpSocket(target.version, self._loop)
        sock = self._sockets[target.version]
        if method == "ping":
            return Ping(sock, target, ProbeTracker(number, self._write_outcome, self._clocks))
        tracker = ProbeTracker(number, lambda _: None, self._clocks)
        return Trace(sock, self._loop, target, self._spec.every_ns, tracker, lambda hop: self._out.write(["h", *hop]))

    def _write_outcome(self, row: Row) -> None:
        self._out.write(["p", *row])

    def _plan(self, number: int, seq: int, due_ns: int) -> None:
        if self._last_due_ns is None or due_ns < self._last_due_ns:
            self._planned += 1
            self._loop.at(due_ns, lambda due_ns: self._send(number, seq, due_ns))

    def _send(self, number: int, seq: int, due_ns: int) -> None:
        self._planned -= 1
        if self._ending:
            return
        every_ns = self._spec.every_ns
        late_ns = time.monotonic_ns() - due_ns
        skip = late_ns // every_ns
        if skip:
            if self._last_due_ns is not None:
                # Count only probes due before the end.
                skip = min(skip, -(-(self._last_due_ns - due_ns) // every_ns))
            self._skipped[number] += skip
            seq, due_ns, late_ns = seq + skip, due_ns + skip * every_ns, late_ns % every_ns
            if self._last_due_ns is not None and due_ns >= self._last_due_ns:
                return
        self._probers[number].send(seq, late_ns)
        self._plan(number, seq + 1, due_ns + every_ns)

    def _tick(self, due_ns: int) -> None:
        now = time.monotonic_ns()
        for jump in self._clocks.look():
            event = "the machine slept for" if jump.kind == "suspended" else "the time of day was set by"
            self._out.write(["e", time.time_ns(), jump.kind, None, f"{event} {jump.by_s:.3f} s", jump.by_s])
        for prober in self._probers:
            prober.tracker.expire(now)
            prober.tick()
        self._ticks += 1
        if self._ticks % _COUNT_TICKS == 0:
            self._count()
        self._out.flush()
        # After a pause this may run before overdue probes are sent or counted; `_planned` covers them.
        over = self._last_due_ns is not None and now >= self._last_due_ns and not self._planned
        if (over or self._ending) and not any(len(prober.tracker) for prober in self._probers):
            self._loop.stop()
        self._loop.at(max(due_ns + TICK_NS, now), self._tick)

    def _on_input_closed(self, seen_ns: int) -> None:
        del seen_ns
        with contextlib.suppress(BlockingIOError):
            if os.read(0, 4096) == b"":
                self._ending = True
                self._loop.forget(0)

    def _count(self, *, over: bool = False) -> None:
        owds = [prober if isinstance(prober, Owd) else None for prober in self._probers]
        counts = Counts(
            skipped=self._skipped,
            late_answers=[prober.tracker.late_answers for prober in self._probers],
            lost_up=[owd.lost_up if owd else None for owd in owds],
            far_overruns=[owd.far_overruns if owd else None for owd in owds],
            far_refused=[owd.far_refused if owd else None for owd in owds],
            same_clock=[owd.same_clock if owd else None for owd in owds],
            overruns=sum(sock.overruns() for sock in self._sockets.values())
            + sum(owd.overruns() for owd in owds if owd),
            over=over,
        )
        self._out.write(["c", counts])


class _Out:
    """Non-blocking writer of lines to the session; lines for which the pipe has no room are buffered."""

    def __init__(self) -> None:
        """Make standard output non-blocking."""
        self._waiting = bytearray()
        with contextlib.suppress(OSError):
            fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(1, False)

    def write(self, line: list[Any]) -> None:
        self._waiting += json.dumps(line, separators=(",", ":")).encode() + b"\n"

    def flush(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._waiting:
                del self._waiting[: os.write(1, self._waiting[:_PIPE_BYTES])]

    def drain(self) -> None:
        os.set_blocking(1, True)
        self.flush()


def main() -> int:
    """Run the engine process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the session, which closes our input
    line = io.FileIO(0, closefd=False).readline()
    if not line:  # the session ended without one
        return 0
    spec = Spec.from_json(line.decode())
    os.set_blocking(0, False)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if len(spec.targets) * 10**9 <= _REAL_TIME_PER_S * spec.every_ns:
        with contextlib.suppress(OSError):  # only with permission for real-time priority
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        engine = Engine(spec)
    except UserError as error:
        print(json.dumps(["x", str(error)]), flush=True)
        return error.exit_code
    with contextlib.suppress(BrokenPipeError):  # the session is gone
        engine.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
