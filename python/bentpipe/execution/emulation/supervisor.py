"""The supervisor: the process that leaves the machine's namespaces.

``python -m bentpipe.execution.emulation.supervisor CONTROL REPORT APPS NODES`` starts it. The first two are
descriptors, the others JSON lists: applications in Python (``FILE.py:CLASS``), and names of the path's nodes if these
are processes.

Only a process with one thread can enter a user namespace, so this one loads nothing that starts threads. Its child is
process 1 of a PID namespace and runs the emulation; when the child ends, the kernel kills all processes inside. Nodes
are children of process 1, forked while it has one thread.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

from bentpipe import _native
from bentpipe.errors import UserError
from bentpipe.execution.emulation.engine import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Sequence

ENDS = 2
"""The first nodes are at the ends of the path: the terminal and the ground station."""


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
            nodes = _start_nodes(json.loads(sys.argv[4]), (control, alive, report))
            status = _native.emulate(user_namespace, _path(control), _path(alive), _path(report), apps, nodes)
        finally:
            os._exit(status)
    os.close(control)
    os.close(report)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _start_nodes(names: list[str], not_theirs: Sequence[int]) -> list[tuple[int, int, int | None]]:
    """Start a process for each node; return their PIDs and sockets for messages and, at the ends of the path, packets.

    A node gets no descriptor of the session or of another node, so that a closed socket tells of an ended process.
    """
    nodes: list[tuple[int, int, int | None]] = []
    for number, _ in enumerate(names):
        control = socket.socketpair()
        host = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) if number < ENDS else None
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                for descriptor in (*not_theirs, *(d for node in nodes for d in node[1:] if d is not None)):
                    os.close(descriptor)
                control[0].close()
                own = None
                if host is not None:
                    host[0].close()
                    own = host[1].detach()
                status = _native.emulate_node(control[1].detach(), own)
            finally:
                os._exit(status)
        control[1].close()
        if host is not None:
            host[1].close()
        nodes.append((pid, control[0].detach(), host and host[0].detach()))
    return nodes


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
