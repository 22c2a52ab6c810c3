"""The supervisor: the process that leaves the machine's namespaces.

``python -m bentpipe.execution.emulation.supervisor CONTROL REPORT APPS`` starts it. The first two are descriptors, the
last is a JSON list of applications in Python (``FILE.py:CLASS``).

Only a process with one thread can enter a user namespace, so this one loads nothing that starts threads. Its child is
process 1 of a PID namespace and runs the emulation; when the child ends, the kernel kills all processes inside.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from bentpipe import _native
from bentpipe.errors import UserError
from bentpipe.execution.emulation.engine import SIGNALS


def main() -> None:
    """Enter the namespaces, fork, and wait for the child."""
    # Signals to the process group are for the program and the command; this process ends with the command. Programs
    # inherit SIG_IGN but not handlers: a signal that the caller ignores (nohup) stays ignored. The interpreter ignores
    # SIGPIPE and SIGXFSZ; the program must not inherit that, and they must not end this process.
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # blocked since before this process was started
    control, report = int(sys.argv[1]), int(sys.argv[2])
    for descriptor in (control, report):
        os.set_inheritable(descriptor, False)
    try:
        user_namespace = _native.isolate()
    except UserError as error:
        _report(report, error)
        sys.exit(2)
    alive, hold = os.pipe()  # `hold` is open for as long as this process lives
    child = os.fork()
    if child == 0:
        os.close(hold)
        status = 1
        try:
            # The load monitor needs the PID outside; this /proc still belongs to the outer namespace.
            pid = int(os.readlink("/proc/self"))  # noqa: PTH115 - not a path
            os.write(report, json.dumps({"type": "process", "pid": pid}).encode() + b"\n")
            apps = _apps(json.loads(sys.argv[3]), report)
            status = _native.emulate(user_namespace, _path(control), _path(alive), _path(report), apps)
        finally:
            os._exit(status)
    os.close(control)
    os.close(report)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _apps(names: list[str], report: int) -> dict[str, Any]:
    """Load applications in Python."""
    if not names:
        return {}
    from bentpipe.experiments.plugins import app_factories

    try:
        return dict(app_factories(names))
    except UserError as error:
        _report(report, error)
        raise SystemExit(2) from error


def _report(report: int, error: UserError) -> None:
    os.write(report, json.dumps({"type": "error", "kind": "user", "message": str(error)}).encode() + b"\n")


def _path(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


if __name__ == "__main__":
    main()
