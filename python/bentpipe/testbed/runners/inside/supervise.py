"""Process 1 of a run's PID namespace: obeys the agent, enforces the limits, reaps, and reports the end.

When it ends, for whatever reason, the kernel kills every process of the run. It ends when the agent does: the socket to
the agent is then closed, and its parent dies (`die_with_parent`).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bentpipe.testbed.namespaces import linux
from bentpipe.testbed.runners.inside import sandbox
from bentpipe.testbed.runners.inside.program import become_program
from bentpipe.testbed.runners.inside.usage import folder_bytes, tree_usage

if TYPE_CHECKING:
    from bentpipe.testbed.runners.inside.spec import Order

WAITING_TICK_S: Final = 1.0
"""The same while the program waits at its gate [s], which may be for days."""

TICK_S: Final = 0.05
"""Interval at which limits are checked [s]. Chosen here: a program that writes 1 GB/s exceeds its limit by 50 MB."""

SCAN_SHARE: Final = 0.1
"""Share of the time that is spent on adding up the output folder."""

ACKNOWLEDGED_S: Final = 5.0
"""Time that the agent has to read the report [s]. Chosen here."""

READY_S: Final = 20.0
"""Time within which the program must reach the gate [s]. Chosen here."""


class Supervisor:
    """State of a run, seen from inside."""

    def __init__(self, order: Order, control: socket.socket) -> None:
        """Prepare; `run` does the rest."""
        self._order, self._control = order, control
        self._reason = ""
        self._started_at: float | None = None
        self._kill_at: float | None = None
        self._scan_at = 0.0
        self._peak_bytes = 0
        self._received = b""
        self._child = 0
        self._status: int | None = None

    def run(self) -> None:
        """Start the program and return when the run is over."""
        order = self._order
        gate = os.open(f"{order.folder}/gate", os.O_RDONLY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):
            os.unlink(f"{order.folder}/gate")  # noqa: PTH108
        ready, writer = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            self._control.close()
            os.close(ready)
            become_program(order, writer, gate)
        os.close(writer)
        os.close(gate)
        _prefer()
        if not self._wait_until_ready(ready):
            return
        os.close(ready)
        self._send(type="ready")
        woken, wake = socket.socketpair()
        woken.setblocking(False)
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while self._status is None:
            readable, _, _ = select.select([self._control, woken], [], [], self._tick_s())
            if woken in readable:
                woken.recv(4096)
            self._reap()
            if self._control in readable and not self._obey():
                self._kill()
                return
            if self._status is None:
                self._check_limits()
        self._report()

    def _tick_s(self) -> float:
        is_waiting = self._started_at is None and self._kill_at is None
        return WAITING_TICK_S if is_waiting else TICK_S

    def _wait_until_ready(self, ready: int) -> bool:
        readable, _, _ = select.select([ready, self._control.fileno()], [], [], READY_S)
        if self._control.fileno() in readable:  # the agent is gone, or no longer wants it
            return False
        answer = os.read(ready, 4096).decode() if readable else "enot ready within 20 s"
        if answer == "r":
            return True
        if not answer:
            _, status = os.waitpid(self._child, 0)
            code = os.waitstatus_to_exitcode(status)
            missing = f"no program {self._order.command[0]!r} in the sandbox"
            answer = "e" + (missing if code == 127 else f"the sandbox ended with exit code {code}: {self._complaint()}")
        self._send(type="error", message=answer[1:])
        return False

    def _complaint(self) -> str:
        try:
            text = Path(self._order.output, "stderr.txt").read_bytes()[:400].decode(errors="replace")
        except OSError:
            return ""
        return " ".join(text.split())

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._child:
                self._status = status

    def _obey(self) -> bool:
        """Handle the agent's commands; return False if the agent is gone or wants everything killed."""
        try:
            data = self._control.recv(4096)
        except OSError:
            return False
        if not data:
            return False
        self._received += data
        *lines, self._received = self._received.split(b"\n")
        for line in lines:
            command = line.decode().split()
            if command[0] == "started":
                self._started_at = time.monotonic()
            elif command[0] == "stop":
                self._stop("stopped", float(command[1]))
            elif command[0] == "kill":
                self._reason = self._reason or "stopped"
                self._kill()
            elif command[0] == "freeze":
                _kill_all(signal.SIGSTOP)
                self._send(type="frozen")
            elif command[0] == "thaw":
                _kill_all(signal.SIGCONT)
                self._send(type="thawed")
            elif command[0] == "reason":  # the agent saw a limit that only it can see
                self._end(" ".join(command[1:]))
        return True

    def _check_limits(self) -> None:
        order, now = self._order, time.monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill()
        if self._started_at is not None and now - self._started_at > order.duration_s and not self._reason:
            self._stop("time limit", order.grace_s)
        if now >= self._scan_at:
            size = folder_bytes(order.output, order.output_bytes)
            after = time.monotonic()
            self._scan_at = after + max(TICK_S, (after - now) / SCAN_SHARE)
            if size > order.output_bytes:
                self._end("killed: disk")
        if order.memory_events and _oom_kills(order.memory_events):  # the kernel may have killed only one process
            self._end("killed: memory")
        if order.watches_processes:
            usage = tree_usage()
            self._peak_bytes = max(self._peak_bytes, usage.memory_bytes)
            if usage.memory_bytes > order.memory_bytes:
                self._end("killed: memory")
            elif usage.threads > order.pids:
                self._end("killed: pids")

    def _stop(self, reason: str, grace_s: float) -> None:
        self._reason = self._reason or reason
        kill_at = time.monotonic() + grace_s
        self._kill_at = kill_at if self._kill_at is None else min(kill_at, self._kill_at)
        self._signal_all(signal.SIGTERM)
        _kill_all(signal.SIGCONT)  # a stopped process handles no signal

    def _signal_all(self, number: int) -> None:
        """Signal every process of the program; bubblewrap itself, which waits for it, would take it with it."""
        if self._order.bubblewrap is None:
            _kill_all(number)
            return
        for name in os.listdir("/proc"):  # noqa: PTH208
            if name.isdigit() and int(name) not in (1, self._child):
                try:
                    os.kill(int(name), number)
                except OSError:
                    continue

    def _end(self, reason: str) -> None:
        self._reason = self._reason if self._reason.startswith("killed") else reason
        self._kill()

    def _kill(self) -> None:
        _kill_all(signal.SIGKILL)

    def _report(self) -> None:
        assert self._status is not None
        code = os.waitstatus_to_exitcode(self._status)
        code = code if code >= 0 else 128 - code
        if not self._reason and code == 128 + signal.SIGXFSZ:
            self._reason = "killed: disk"
        _kill_all(signal.SIGKILL)
        self._send(type="exit", code=code, reason=self._reason or "exited", peak_memory_bytes=self._peak_bytes or None)
        # The agent closes when it has read this. A socket closed with commands unread would lose the message.
        self._control.settimeout(ACKNOWLEDGED_S)
        with contextlib.suppress(OSError):
            while self._control.recv(4096):
                pass

    def _send(self, **message: Any) -> None:  # noqa: ANN401
        with contextlib.suppress(OSError):
            self._control.sendall(json.dumps(message).encode() + b"\n")


def _oom_kills(path: str) -> int:
    try:
        words = Path(path).read_text(encoding="ascii").split()
        return int(words[words.index("oom_kill") + 1])
    except (OSError, ValueError):
        return 0


def _prefer() -> None:
    """Run before a program that uses every processor, if this process may."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)


def _bound_pids(pids: int) -> None:
    """Bound the processes of the PID namespace (Linux 6.14), beside what limits them exactly but later or per user."""
    with contextlib.suppress(OSError):
        Path("/proc/sys/kernel/pid_max").write_text(str(max(pids + 32, 400)), encoding="ascii")


def _kill_all(number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, number)


def supervise(order: Order, control: socket.socket) -> None:
    """Run as process 1; return when the run is over.

    Raises:
        OSError: The sandbox cannot be made.
    """
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    sandbox.private_mounts()
    if order.watches_processes:
        _bound_pids(order.pids)
    linux.hide_from_ptrace()
    Supervisor(order, control).run()
