"""Emulation of a Profile in real time, for programs or for the kernel's TCP.

`emulate` starts the process that makes the namespaces (`bentpipe.execution.emulation.supervisor`), sends it the
request, and collects its messages: one JSON object a line, each written at once, so that a sudden end loses nothing
written before it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bentpipe import _native
from bentpipe.errors import BentpipeError, ControllerError, UserError
from bentpipe.execution.emulation.load import (
    MachineMonitor,
    machine_limit,
)
from bentpipe.execution.emulation.processors import ProcessorTime
from bentpipe.execution.emulation.result import TABLES, EmulationResult
from bentpipe.execution.emulation.spec import EmulationError, Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bentpipe._native import Profile
    from bentpipe.experiments.plugins import OnLines

ROWS = frozenset({"header", "flow", *TABLES, "dropped"})
"""Types of messages that are rows of the Run (`bentpipe.runs.rows`); the others are the emulator's own."""

ERRORS: Mapping[str, type[BentpipeError]] = {"user": UserError, "app": ControllerError, "emulator": EmulationError}
"""Errors of the emulator, by the kind that its message has."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals to the process group, from a terminal or a service manager: for the program inside, not for the emulator."""


def emulate(
    profile: Profile,
    spec: Spec,
    *,
    on_message: Callable[[Mapping[str, Any]], None] | None = None,
    on_rows: OnLines | None = None,
    stdout: int | None = None,
) -> EmulationResult:
    """Run one emulation to its end.

    Ctrl-C and SIGQUIT go to the program, as from any terminal. A second Ctrl-C, SIGTERM or SIGHUP stops the program,
    and a third Ctrl-C kills everything. A signal that this process ignores is ignored inside, too.

    Args:
        profile: The path.
        spec: The request.
        on_message: Called with each message.
        on_rows: Called with each row as a line of JSON, at once; it must not wait, since the emulator's queue for rows
            is limited.
        stdout: Descriptor for the program's standard output; None: this process's own.

    Raises:
        UserError: the request cannot be run: no namespaces, neither TUN nor veth, no such program, a server that does
            not listen; or a program inside removed the path's device.
        ControllerError: an application in Python failed; the message names it.
        EmulationError: it did not start, or failed after it had started.
    """
    request = spec.to_json(profile)
    result = EmulationResult()
    monitor = MachineMonitor()
    nodes = _native.node_names(profile) if spec.nodes else []
    with _Supervisor(stdout, spec.apps, nodes) as supervisor:
        paths = [profile] if spec.beside is None else [profile, spec.beside]
        supervisor.send(request, *map(_native.encode_profile, paths))
        processors = ProcessorTime.now()
        for line in supervisor.lines():
            message = json.loads(line)
            if message["type"] == "error":
                raise ERRORS[message["kind"]](message["message"])
            result.add(message)
            monitor.update(message)
            if on_rows is not None and message["type"] in ROWS:
                on_rows(line)
            if on_message is not None:
                on_message(message)
        status = supervisor.wait()
    result.stolen_share = processors.stolen_share_since() if processors else None
    tcp_bytes = sum(flow["delivered_bytes"] for flow in (result.done or {}).get("flows", ()))
    result.add_stolen_events(monitor.seconds)
    result.limit = machine_limit(result.tables.get("links", {}), monitor.seconds, tcp_bytes=tcp_bytes)
    if result.started is None:
        raise EmulationError(f"the emulation did not start (status {status}); see above")
    return result


class _Supervisor:
    """The supervisor's process (`bentpipe.execution.emulation.supervisor`) with its two pipes."""

    def __init__(self, stdout: int | None, apps: Sequence[str], nodes: Sequence[str]) -> None:
        self._stdout = stdout
        self._apps = apps
        self._nodes = nodes

    def __enter__(self) -> _Supervisor:
        control, self._control = os.pipe()
        self._report, report = os.pipe()
        module = "bentpipe.execution.emulation.supervisor"
        lists = [json.dumps(list(names)) for names in (self._apps, self._nodes)]
        command = [sys.executable, "-P", "-m", module, str(control), str(report), *lists]
        # Blocked until the child has handlers: an interpreter that is interrupted while it starts prints a traceback.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self._process = subprocess.Popen(command, pass_fds=(control, report), stdout=self._stdout)
        except OSError as error:
            os.close(self._control)
            os.close(self._report)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            real = os.path.realpath(sys.executable)
            python = sys.executable if real == sys.executable else f"{sys.executable} (which is {real})"
            raise EmulationError(f"the emulation was not started: {python}: {error.strerror}") from error
        finally:
            os.close(control)
            os.close(report)
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except KeyboardInterrupt:  # pending from before
            self._close()
            raise
        self._interrupts = 0
        self._before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            self._before = {
                number: signal.signal(number, handler)
                for number, handler in (
                    (signal.SIGINT, self._on_sigint),
                    (signal.SIGTERM, lambda *_: self.request_stop()),
                    (signal.SIGHUP, lambda *_: self.request_stop()),
                    (signal.SIGQUIT, lambda *_: None),
                )
                if signal.getsignal(number) != signal.SIG_IGN  # by nohup(1), or by a shell script for `&`
            }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._close()

    def _close(self) -> None:
        self.kill()
        self._process.wait()
        os.close(self._report)

    def _on_sigint(self, *_: object) -> None:
        self._interrupts += 1
        if self._interrupts == 2:
            self.request_stop()
        elif self._interrupts > 2:
            self.kill()

    def send(self, *parts: bytes) -> None:
        """Send the request; a supervisor that could not start reports the error on the other pipe."""
        with contextlib.suppress(BrokenPipeError):
            for part in parts:
                rest = memoryview(struct.pack("<Q", len(part)) + part)
                while rest:
                    rest = rest[os.write(self._control, rest) :]

    def lines(self) -> Iterator[bytes]:
        """Yield its messages until it ends; skip a line truncated by a sudden end."""
        with os.fdopen(os.dup(self._report), "rb") as report:
            for line in report:
                if line.endswith(b"\n"):
                    yield line

    def request_stop(self) -> None:
        """Stop the program with a signal, and a grace period."""
        if self._control >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._control, b"T")

    def kill(self) -> None:
        """Kill everything inside, now."""
        if self._control >= 0:
            os.close(self._control)
            self._control = -1

    def wait(self) -> int:
        """Wait for the supervisor; return its exit status."""
        return self._process.wait()
