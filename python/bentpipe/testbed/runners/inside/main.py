"""First process of a run: enters the namespaces, starts process 1, waits for it.

python -I -S -c 'import sys; sys.path.append(ROOT); from bentpipe.testbed.runners.inside.main import main; main()' ORDER
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path

from bentpipe.testbed.namespaces import linux
from bentpipe.testbed.runners.inside.spec import Order
from bentpipe.testbed.runners.inside.supervise import supervise

FAILED = 125
"""Exit code if the sandbox could not be made."""


def main() -> None:
    """Run the order in the file `sys.argv[1]`; with ``--with-parent``, execute the remaining arguments instead."""
    linux.die_with_parent(0)
    if sys.argv[1] == "--with-parent":
        os.execv(sys.argv[2], sys.argv[2:])
    order = Order.from_json(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # for the agent and the program
        signal.signal(number, signal.SIG_IGN)
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(order.folder, os.O_PATH | os.O_DIRECTORY)
    control.connect(f"/proc/self/fd/{folder}/control")  # the path itself may be too long for a socket's address
    os.close(folder)
    try:
        _enter(order)
        parent = os.getpid()
        child = os.fork()
    except OSError as error:
        _fail(control, error)
    if child == 0:
        status = FAILED
        try:
            linux.die_with_parent(0)
            if os.getppid() not in (0, parent):  # 0: the parent is outside this PID namespace
                os._exit(FAILED)
            supervise(order, control)
            status = 0
        except OSError as error:
            _fail(control, error)
        except BaseException:  # noqa: BLE001 - the process ends with the next line
            traceback.print_exc()
        finally:
            os._exit(status)
    control.close()
    _, status = os.waitpid(child, 0)
    os._exit(0 if status == 0 else FAILED)


def _enter(order: Order) -> None:
    namespaces = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
    if order.network is not None:
        linux.setns(order.network, linux.CLONE_NEWNET)
        os.close(order.network)
    if linux.has_capability(linux.CAP_SYS_ADMIN):
        linux.unshare(namespaces)
        return
    user, group = os.geteuid(), os.getegid()  # an ordinary user, inside an emulation
    linux.unshare(linux.CLONE_NEWUSER | namespaces)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path("/proc/self", name).write_text(text, encoding="ascii")


def _fail(control: socket.socket, error: OSError) -> None:
    message = {"type": "error", "message": str(error.strerror or error)}
    control.sendall(json.dumps(message).encode() + b"\n")
    os._exit(FAILED)
