"""The process that leaves the machine's namespaces.

``python -m bentpipe.execution.emulation.supervisor CONTROL REPORT`` starts it.

Both are descriptors. A user namespace can be entered by a process with one thread only, so this one loads nothing that
starts threads. Its child is process 1 of a PID namespace and does everything else; when it ends, the kernel ends all
that runs inside.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from bentpipe import _native
from bentpipe.errors import UserError
from bentpipe.execution.emulation.engine import SIGNALS


def main() -> None:
    """Isolate, fork, wait."""
    # Signals to the whole group are for the program and for the command, whose end ends this one. A handler, unlike
    # SIG_IGN, is not passed on to the program; what the caller ignores is to be (nohup). The interpreter itself ignores
    # SIGPIPE and SIGXFSZ, which must neither be the program's nor end this process.
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # they wait since before this process was started
    control, report = int(sys.argv[1]), int(sys.argv[2])
    for descriptor in (control, report):
        os.set_inheritable(descriptor, False)
    try:
        user_namespace = _native.isolate()
    except UserError as error:
        os.write(report, json.dumps({"kind": "error", "message": str(error)}).encode() + b"\n")
        sys.exit(2)
    alive, hold = os.pipe()  # `hold` is open for as long as this process lives
    child = os.fork()
    if child == 0:
        os.close(hold)
        status = 1
        try:
            # Whoever watches how busy it is wants its number outside, which is what this /proc, not yet its own, says.
            pid = int(os.readlink("/proc/self"))  # noqa: PTH115 - not a path
            os.write(report, json.dumps({"kind": "process", "pid": pid}).encode() + b"\n")
            status = _native.emulate(user_namespace, _path(control), _path(alive), _path(report))
        finally:
            os._exit(status)
    os.close(control)
    os.close(report)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _path(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


if __name__ == "__main__":
    main()
