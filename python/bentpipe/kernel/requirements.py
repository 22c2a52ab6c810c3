"""What stands between a controller and this kernel, in one sentence with its remedy."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from bentpipe.errors import UserError
from bentpipe.kernel import libbpf

BTF = Path("/sys/kernel/btf/vmlinux")
LOCKDOWN = Path("/sys/kernel/security/lockdown")
STATUS, USERS = Path("/proc/self/status"), Path("/proc/self/uid_map")
CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21


def check() -> None:
    """Check what can be known before the kernel is asked.

    Raises:
        UserError: What is missing, and what to do.
    """
    own = capabilities()
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
            hint="a distribution's kernel, 6.6 or newer; in a container, mount /sys",
        )


RATE_SAMPLE_AT = {4: 3, 2: 1}
"""Place of the rate sample among the arguments of `cong_control`, by their number: 4 since Linux 6.10, 2 before."""


def rate_sample_argument() -> int:
    """Return the place of the rate sample among the arguments of this kernel's `cong_control`, from 0.

    Raises:
        UserError: The kernel takes no controllers from programs, or calls them in an unknown way.
    """
    release = os.uname().release
    wrapper = "bpf_struct_ops_tcp_congestion_ops"
    try:
        structures = libbpf.structures_of(BTF, ["tcp_congestion_ops", wrapper])
    except libbpf.KernelRefusedError as error:
        raise UserError(f"{BTF}: no description of a kernel's types ({error})", hint="mount /sys") from None
    if wrapper not in structures or "tcp_congestion_ops" not in structures:
        raise UserError(
            f"this kernel ({release}) takes no controllers from BPF programs",
            expected="one with CONFIG_BPF_JIT and CONFIG_DEBUG_INFO_BTF",
            hint="a distribution's kernel, 6.6 or newer",
        )
    arguments = structures["tcp_congestion_ops"].arguments.get("cong_control")
    if arguments not in RATE_SAMPLE_AT:
        raise UserError(
            f"this kernel ({release}) calls cong_control with {arguments} arguments",
            expected=" or ".join(str(number) for number in RATE_SAMPLE_AT),
            hint="report it with the kernel's version: docs/guides/kernel.md",
        )
    return RATE_SAMPLE_AT[arguments]


def why(name: str, error: libbpf.KernelRefusedError) -> UserError:
    """Return the error for a user from what the kernel answered when the controller called `name` was loaded."""
    message = "; ".join(error.lines[-20:])
    release = os.uname().release
    if error.number == errno.EEXIST:
        return UserError(
            f"the kernel has a controller called {name} already",
            hint=f"rmmod tcp_{name}, if it is the kernel's own module; else bentpipe kernel unload {name}",
        )
    refused = error.number in (errno.EPERM, errno.EACCES) and "processed" not in message
    if "[confidentiality]" in _text(LOCKDOWN) and (refused or "unknown func" in message):
        return UserError(
            f"{name}: this kernel is locked down (confidentiality) and refused it",
            hint="boot with lockdown=integrity or without lockdown",
        )
    if refused and "verif" not in message:
        return UserError(
            f"{name}: the kernel refused it: {os.strerror(error.number)}",
            expected="root on the host",
            hint="run it as root on the host",
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


def capabilities(status: Path | None = None) -> int:
    """Return the effective capabilities in a process's ``status`` file as bits, by default those of this one."""
    lines = _text(status or STATUS).splitlines()
    return next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), 0)


def _is_first_user_namespace() -> bool:
    """Whether user 0 here is user 0 of the machine: others have the capabilities of their namespace only."""
    return _text(USERS).split()[:3] in ([], ["0", "0", "4294967295"])
