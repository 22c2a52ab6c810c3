"""System calls that the standard library does not have."""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Final

_libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000

MS_NOSUID: Final = 0x2
MS_NODEV: Final = 0x4
MS_NOEXEC: Final = 0x8
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x40000

CAP_DAC_READ_SEARCH: Final = 2
CAP_SETGID: Final = 6
CAP_SETUID: Final = 7
CAP_SETPCAP: Final = 8
CAP_NET_ADMIN: Final = 12
CAP_NET_RAW: Final = 13
CAP_SYS_ADMIN: Final = 21
LAST_CAPABILITY: Final = 63

_MOUNT_SETATTR: Final = 442
_AT_FDCWD: Final = -100
_AT_RECURSIVE: Final = 0x8000
_MOUNT_ATTR_RDONLY: Final = 0x1
_MOUNT_ATTR_NOSUID: Final = 0x2

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP = 1, 4, 22, 24
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_SET_KEEPCAPS = 38, 47, 8
_SECCOMP_MODE_FILTER: Final = 2
_CAPABILITY_VERSION_3: Final = 0x20080522


def _check(result: int, action: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{action}: {os.strerror(number)}")
    return result


def _prctl(option: int, *values: int, action: str) -> None:
    arguments = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    _check(_libc.prctl(ctypes.c_int(option), *arguments), action)


def unshare(flags: int) -> None:
    """Enter new namespaces (unshare(2)). Raises `OSError`."""
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """Enter the namespace of a descriptor (setns(2)). Raises `OSError`."""
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)), "setns")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount a file system (mount(2)). Raises `OSError` that names the target."""
    texts = [text.encode() or None for text in (source, target, kind)]
    _check(
        _libc.mount(*texts, ctypes.c_ulong(flags), data.encode() or None),
        f"mount of {kind or source} on {target}",
    )


def set_read_only(target: str, read_only: bool, *, recursive: bool) -> None:
    """Make a mount, or all below it, read-only or writable, and without set-user-ID files or file capabilities.

    A program with file capabilities that the run may not have, such as ping, then runs without them instead of not at
    all. Needs Linux 5.12 (mount_setattr(2)). Raises `OSError`.
    """

    class Attributes(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user")]

    changes = (_MOUNT_ATTR_RDONLY, 0) if read_only else (0, _MOUNT_ATTR_RDONLY)
    attributes = Attributes(changes[0] | _MOUNT_ATTR_NOSUID, changes[1], 0, 0)
    _check(
        _libc.syscall(
            ctypes.c_long(_MOUNT_SETATTR),
            ctypes.c_int(_AT_FDCWD),
            target.encode(),
            ctypes.c_uint(_AT_RECURSIVE if recursive else 0),
            ctypes.byref(attributes),
            ctypes.c_size_t(ctypes.sizeof(attributes)),
        ),
        f"read-only {target}",
    )


def die_with_parent(parent: int) -> None:
    """Get SIGKILL when the parent ends; end now if it is no longer the process `parent`."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, action="PR_SET_PDEATHSIG")
    if parent and os.getppid() != parent:
        os._exit(1)


def hide_from_ptrace() -> None:
    """Let no process of the same user read or trace this one."""
    _prctl(_PR_SET_DUMPABLE, 0, action="PR_SET_DUMPABLE")


def forbid_new_privileges() -> None:
    """No program that this process executes gains privileges (set-user-ID files have no effect)."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, action="PR_SET_NO_NEW_PRIVS")


def drop_capabilities(keep: set[int], user: int | None) -> None:
    """Drop all capabilities but `keep`, from the bounding set too, and become `user`; None: stay the same user.

    Raises:
        OSError: The kernel refused.
    """
    for number in range(LAST_CAPABILITY + 1):
        if number not in keep:
            _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0)  # EINVAL: this kernel has no such one
    if user is not None:
        _prctl(_PR_SET_KEEPCAPS, 1, action="PR_SET_KEEPCAPS")
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    _set_capabilities(keep)
    for number in keep:
        _prctl(_PR_CAP_AMBIENT, 2, number, action="PR_CAP_AMBIENT")


def _set_capabilities(keep: set[int]) -> None:
    words = [sum(1 << (n % 32) for n in keep if n // 32 == word) for word in (0, 1)]
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)(*(value for word in words for value in (word, word, word)))
    _check(_libc.capset(header, data), "capset")


def capability_bounds() -> int:
    """Return the effective capabilities of this process as bits."""
    with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - starts faster
        return next(int(line.split()[1], 16) for line in status if line.startswith("CapEff:"))


def has_capability(number: int) -> bool:
    """Return whether this process has the capability in its user namespace."""
    return bool(capability_bounds() >> number & 1)


def install_seccomp(program: bytes) -> None:
    """Install a seccomp filter: instructions of classic BPF, eight bytes each. Raises `OSError`."""

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]

    buffer = ctypes.create_string_buffer(program, len(program))
    record = Program(len(program) // 8, ctypes.addressof(buffer))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(record), action="PR_SET_SECCOMP")
