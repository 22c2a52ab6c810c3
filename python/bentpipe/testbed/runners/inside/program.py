"""The program's own process: joins its cgroups, drops its rights, waits at the gate, becomes the program."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bentpipe.testbed.namespaces import linux
from bentpipe.testbed.runners.inside import bubblewrap, sandbox
from bentpipe.testbed.runners.inside.seccomp import seccomp_filter
from bentpipe.testbed.runners.inside.spec import STDERR, STDOUT

if TYPE_CHECKING:
    from bentpipe.testbed.runners.inside.spec import Order

NOT_STARTED: Final = 126
"""Exit code of a process that could not become the program."""

OPEN_FILES: Final = 4096

_READY, _GATE = 8, 9


def become_program(order: Order, ready: int, gate: int) -> None:
    """Never return: wait at the gate, then execute the program. `ready` gets one byte, or the text of an error."""
    try:
        os.setsid()
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)  # what this interpreter ignores, the program would ignore too
        for path in order.cgroups:
            Path(path).write_text("0", encoding="ascii")
        if order.bubblewrap is None:
            _execute(order, ready, gate)
        else:
            _execute_bubblewrap(order, ready, gate)
    except OSError as error:
        os.write(ready, f"e{error.strerror or error}".encode())
    os._exit(NOT_STARTED)


def _redirect(order: Order) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND
    folder = os.open(order.output, os.O_PATH | os.O_DIRECTORY)
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    for number, name in ((1, STDOUT), (2, STDERR)):
        file = os.open(name, flags, 0o644, dir_fd=folder)
        if order.user is not None:
            os.fchown(file, order.user, order.user)
        os.dup2(file, number)
        os.close(file)
    os.close(folder)
    os.close(nothing)


def _limit(order: Order) -> None:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: order.output_bytes,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_MSGQUEUE: 1 << 20,
    }
    if order.watches_processes:
        limits[resource.RLIMIT_NPROC] = _threads_of_user() + order.pids
        limits[resource.RLIMIT_DATA] = 4 * order.memory_bytes
    for kind, value in limits.items():
        _, hard = resource.getrlimit(kind)
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (least, least))


def _threads_of_user() -> int:
    """Return a number of threads that this user surely has not more of outside the run."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    with open("/proc/loadavg", encoding="ascii") as file:  # noqa: PTH123 - all threads of the PID namespace or machine
        threads = int(file.read().split()[3].partition("/")[2])
    return threads if hard == resource.RLIM_INFINITY else min(threads, soft)


def _execute(order: Order, ready: int, gate: int) -> None:
    sandbox.enter_view(order)  # first: a file that is open for writing would keep its mount writable
    _redirect(order)
    os.chdir(order.environment["BENTPIPE_OUTPUT"])
    path = shutil.which(order.command[0], path=order.environment.get("PATH", os.defpath))
    if path is None:
        os.write(ready, f"eno program {order.command[0]!r} in the sandbox".encode())
        os._exit(NOT_STARTED)
    Path(path).read_bytes()  # into the page cache
    _limit(order)
    linux.drop_capabilities(set(order.capabilities), order.user)
    linux.forbid_new_privileges()
    if program := seccomp_filter():
        linux.install_seccomp(program)
    os.write(ready, b"r")
    os.close(ready)
    if os.read(gate, 1) != b"\n":
        os._exit(NOT_STARTED)
    os.execve(path, order.command, order.environment)


def _execute_bubblewrap(order: Order, ready: int, gate: int) -> None:
    _redirect(order)
    _limit(order)
    filter_file = os.memfd_create("seccomp", 0)
    os.write(filter_file, seccomp_filter())
    os.lseek(filter_file, 0, os.SEEK_SET)
    high = [os.dup2(descriptor, 90 + n) for n, descriptor in enumerate((filter_file, ready, gate))]
    for descriptor, number in zip(high, (bubblewrap.FILTER, _READY, _GATE), strict=True):
        os.dup2(descriptor, number)
    os.closerange(3, bubblewrap.FILTER)
    os.closerange(_GATE + 1, 4096)
    line = bubblewrap.arguments(order, _READY, _GATE)
    # Without the filter's instructions (another architecture) bubblewrap gets none.
    if not seccomp_filter():
        at = line.index("--seccomp")
        del line[at : at + 2]
    os.execve(line[0], line, order.environment)
