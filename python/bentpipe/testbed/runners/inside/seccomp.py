"""The seccomp filter of experiments: it refuses what no measurement needs and kernel exploits use.

Refused calls fail with EPERM: namespaces, mounts, keys, BPF, modules, io_uring, tracing of other processes. The list
follows the default profiles of Docker and Flatpak. Other architectures than x86-64 and AArch64 have no filter.
"""

from __future__ import annotations

import os
import struct
from typing import Final

_CALLS: Final = {
    # name: (x86-64, AArch64); None: the architecture has no such call
    "ptrace": (101, 117),
    "syslog": (103, 116),
    "acct": (163, 89),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "quotactl": (179, 60),
    "kexec_load": (246, 104),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "perf_event_open": (298, 241),
    "open_by_handle_at": (304, 265),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "finit_module": (313, 273),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "pidfd_getfd": (438, 438),
    "mount_setattr": (442, 442),
}

_CLONE: Final = (56, 220)
_CLONE3: Final = 435
_NAMESPACES: Final = 0x7E020080
"""Flags of clone(2) that make namespaces."""

_ARCHITECTURES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_X32: Final = 0x40000000

_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _REFUSE, _UNKNOWN, _KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000  # EPERM 1, ENOSYS 38


def seccomp_filter(machine: str | None = None) -> bytes:
    """Return the filter for a machine as classic BPF, empty where there is none.

    Args:
        machine: Architecture as `os.uname` names it; None: this machine's.
    """
    machine = machine or os.uname().machine
    if machine not in _ARCHITECTURES:
        return b""
    column, architecture = _ARCHITECTURES[machine]
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":  # the same calls have other numbers there
        program += [(_JUMP_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _REFUSE)]
    # The flags of clone3 lie in memory, where a filter cannot look. Without it libc uses clone.
    program += [(_JUMP_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _UNKNOWN)]
    for numbers in _CALLS.values():
        program += [(_JUMP_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _REFUSE)]
    program += [
        (_JUMP_EQUAL, 0, 3, _CLONE[column]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_ANY_BIT, 0, 1, _NAMESPACES),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
