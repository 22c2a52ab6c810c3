"""The command line of bubblewrap: the program sees /usr, a few files of /etc, its inputs and its output."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.testbed.namespaces import linux

if TYPE_CHECKING:
    from bentpipe.testbed.runners.inside.spec import Order

OUTPUT, INPUTS = "/output", "/inputs"

FILTER = 7
"""Descriptor of the seccomp filter, which bubblewrap reads."""

GATE_SCRIPT = (
    'cd "$BENTPIPE_OUTPUT" || exit 125; command -v "$1" >/dev/null || exit 127; '
    'printf r >&{ready}; exec {ready}>&-; IFS= read -r _ <&{gate} || exit 126; exec {gate}<&-; exec "$@"'
)
"""Waits at the gate inside the sandbox, with everything set up. Descriptors have one digit in dash."""

_ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "group", "host.conf", "hosts", "ld.so.cache",
    "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "passwd", "protocols", "services", "ssl",
)  # fmt: skip
"""Files of /etc that programs need: names, certificates, libraries."""

_ROOTS = ("bin", "lib", "lib32", "lib64", "libx32", "sbin")


def arguments(order: Order, ready: int, gate: int) -> list[str]:
    """Return the command line that waits at the gate and then runs the program.

    Args:
        order: The order.
        ready: Descriptor on which the shell inside reports, of one digit.
        gate: Descriptor of the gate, of one digit.
    """
    line = [str(order.bubblewrap), "--die-with-parent", "--new-session", "--unshare-ipc", "--unshare-uts"]
    line += ["--ro-bind", "/usr", "/usr"]
    for name in _ROOTS:
        root = Path("/", name)
        if root.is_symlink():
            line += ["--symlink", os.readlink(root), str(root)]  # noqa: PTH115
        elif root.is_dir():
            line += ["--ro-bind", str(root), str(root)]
    for folder in ("/etc", INPUTS):
        line += ["--perms", "0755", "--dir", folder]
    for name in _ETC:
        line += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    line += ["--ro-bind-try", order.resolv_conf or os.path.realpath("/etc/resolv.conf"), "/etc/resolv.conf"]
    size = str(max(order.scratch_bytes, 4096))
    # In a user namespace the program's user owns the settings of its network: /proc must be read-only.
    line += ["--proc", "/proc", "--remount-ro", "/proc"]
    line += ["--dev", "/dev", "--size", size, "--perms", "1777", "--tmpfs", "/dev/shm"]
    line += ["--remount-ro", "/dev", "--size", size, "--perms", "1777", "--tmpfs", "/tmp"]
    line += ["--bind", order.output, OUTPUT]
    for parent in dict.fromkeys(str(each) for path in order.readable for each in reversed(Path(path).parents)):
        if parent not in ("/", "/usr") and not parent.startswith("/usr/"):
            line += ["--perms", "0755", "--dir", parent]
    for folder in order.readable:
        line += ["--ro-bind", folder, folder]
    for name, path in order.inputs.items():
        line += ["--ro-bind", path, f"{INPUTS}/{name}"]
    line += ["--remount-ro", "/", "--chdir", "/", "--clearenv"]
    for key, value in order.environment.items():
        line += ["--setenv", key, value]
    line += ["--seccomp", str(FILTER), "--cap-drop", "ALL"]
    change_user = {linux.CAP_SETUID, linux.CAP_SETGID, linux.CAP_SETPCAP}
    kept = set(order.capabilities) | (change_user if order.user is not None else set())
    for number in sorted(kept):
        line += ["--cap-add", _NAMES[number]]
    line += ["--", *_become(order), "/bin/sh", "-c", GATE_SCRIPT.format(ready=ready, gate=gate), "sh"]
    return [*line, *order.command]


_NAMES = {
    linux.CAP_SETUID: "CAP_SETUID",
    linux.CAP_SETGID: "CAP_SETGID",
    linux.CAP_SETPCAP: "CAP_SETPCAP",
    linux.CAP_NET_RAW: "CAP_NET_RAW",
}


def _become(order: Order) -> list[str]:
    """Return the command that changes the user inside, where bubblewrap runs as root."""
    if order.user is None:
        return []
    kept = "".join(f",+{_NAMES[number].removeprefix('CAP_').lower()}" for number in order.capabilities)
    capabilities = [f"--{kind}=-all{kept}" for kind in ("inh-caps", "ambient-caps", "bounding-set")]
    return ["setpriv", f"--reuid={order.user}", f"--regid={order.user}", "--clear-groups", *capabilities]
