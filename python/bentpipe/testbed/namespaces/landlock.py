"""Landlock: a process takes from itself the files, networks and processes that it does not need (landlock(7)).

It needs no rights and no other user, so it holds the same for root and for others. Linux 5.13 or newer.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.testbed.namespaces.linux import forbid_new_privileges

if TYPE_CHECKING:
    from collections.abc import Iterable

_libc = ctypes.CDLL(None, use_errno=True)

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of the system calls, the same on all architectures."""
VERSION, PATH_BENEATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Rights on files that a version of the interface knows."""
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
"""Rights that a rule for a file, not a folder, may have."""
TCP, SCOPES = 0b11, 0b11
"""TCP (version 4); abstract Unix sockets and signals to processes outside (version 6)."""

SYSTEM = (
    "/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", "/dev/null", "/dev/urandom", "/proc/self",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system", "/sys/fs/cgroup",
)  # fmt: skip
"""What Python and its libraries read."""


def landlock_version() -> int:
    """Return the version of the kernel's interface; 0: it has none."""
    return max(0, _call(CREATE_RULESET, None, 0, VERSION))


def keep_files(readable: Iterable[Path], writable: Iterable[Path] = ()) -> bool:
    """Keep this process, for good, to Python's own files and those given; return False: the kernel cannot.

    Call it before there are threads. The process cannot gain rights afterwards (`no_new_privs`).

    Args:
        readable: Files and folders, with all in them.
        writable: Folders in which it may make and write files.

    Raises:
        OSError: The kernel has Landlock and refused.
    """
    version = landlock_version()
    if version == 0:
        return False
    handled = FILE_RIGHTS[max(known for known in FILE_RIGHTS if known <= version)]
    attributes = struct.pack("=QQQ", handled, TCP if version >= 4 else 0, SCOPES if version >= 6 else 0)
    ruleset = _checked(_call(CREATE_RULESET, attributes, len(attributes), 0))  # zeros that it does not know are fine
    try:
        for path in (*map(Path, SYSTEM), *python_folders(), *readable):
            _allow(ruleset, path, EXECUTE | READ_FILE | READ_DIR)
        for path in writable:
            _allow(ruleset, path, handled & ~EXECUTE)
        forbid_new_privileges()
        _checked(_call(RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return True


def python_folders() -> set[Path]:
    """Return the folders from which this Python imports."""
    paths = {*sys.path, sys.base_exec_prefix, *sysconfig.get_paths().values()}
    return {Path(each) for each in paths if each and Path(each) != Path("/")}


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # this machine has no such file
    try:
        rights = rights if path.is_dir() else rights & OF_FILES
        _checked(_call(ADD_RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0))
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: bytes | int | None) -> int:
    values = [each if each is None or isinstance(each, bytes) else ctypes.c_ulong(each) for each in arguments]
    return int(_libc.syscall(ctypes.c_long(number), *values))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"landlock: {os.strerror(number)}")
    return result
