"""What stands between a controller and this kernel, in one sentence with its remedy."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from bentpipe.kernel.libbpf import KernelRefusedError

BTF = Path("/sys/kernel/btf/vmlinux")
LOCKDOWN = Path("/sys/kernel/security/lockdown")
CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21


def check() -> None:
    """Check what can be known before the kernel is asked.

    Raises:
        UserError: What is missing, and what to do.
    """
    own = _capabilities()
    if not own & 1 << CAP_SYS_ADMIN or not own & 1 << CAP_NET_ADMIN or not _is_first_user_namespace():
        raise UserError(
            "this process may not load programs into the kernel, or look at those that are",
            expected="root on the host: CAP_SYS_ADMIN and CAP_NET_ADMIN outside of a user namespace",
            hint="sudo bentpipe kernel …; in a container, run it on its host",
        )
    if not BTF.exists():
        raise UserError(
            f"this kernel ({os.uname().release}) does not describe its types: {BTF} is missing",
            expected="a kernel with CONFIG_DEBUG_INFO_BTF",
            hint="a distribution's kernel, 6.10 or newer; in a container, mount /sys",
        )
    if "[confidentiality]" in _text(LOCKDOWN):
        raise UserError(
            "this kernel is locked down (confidentiality): it loads no BPF programs",
            hint="boot with lockdown=integrity or without lockdown",
        )


def why(name: str, error: KernelRefusedError) -> UserError:
    """Return the error for a user from what the kernel answered when the controller called `name` was loaded."""
    message = "; ".join(error.lines[-20:])
    release = os.uname().release
    if error.number == errno.EEXIST:
        return UserError(
            f"the kernel has a controller called {name} already",
            hint=f"rmmod tcp_{name}, if it is the kernel's own module; else bentpipe kernel unload {name}",
        )
    if error.number in (errno.EPERM, errno.EACCES) and "verif" not in message and "processed" not in message:
        return UserError(
            f"{name}: the kernel refused it: {os.strerror(error.number)}",
            expected="root on the host",
            hint="run it as root on the host",
        )
    if "tcp_congestion_ops" in message and ("not found" in message or "failed to find" in message):
        return UserError(
            f"{name}: this kernel ({release}) takes no controllers from BPF programs",
            expected="6.10 or newer with CONFIG_BPF_JIT and CONFIG_DEBUG_INFO_BTF",
        )
    last = next((line for line in reversed(error.lines) if line.strip() and not line.startswith("libbpf")), "")
    return UserError(
        f"{name}: the verifier of this kernel ({release}) refused it: {last.strip() or error}",
        hint="report it with the kernel's version: docs/guides/kernel.md",
    )


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _capabilities() -> int:
    lines = _text(Path("/proc/self/status")).splitlines()
    return next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)


def _is_first_user_namespace() -> bool:
    """Whether user 0 here is user 0 of the machine: others have the capabilities of their namespace only."""
    return _text(Path("/proc/self/uid_map")).split()[:3] in ([], ["0", "0", "4294967295"])
