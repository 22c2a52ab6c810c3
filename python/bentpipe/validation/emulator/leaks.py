"""Leaks of an emulation: network namespaces and network devices anywhere on the machine.

A namespace is kept by a thread, an open descriptor or a mount (``ip netns add`` makes one); the process that made it
may have ended. With root, the kernel's own count includes namespaces that nothing visible keeps.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import threading
import time
from collections.abc import Callable, Set
from pathlib import Path

from bentpipe.execution.emulation.proc import processes

SLAB = Path("/proc/slabinfo")
SHRINK = Path("/sys/kernel/slab/net_namespace/shrink")
"""A write makes the kernel free the cache's unused objects, which it counts as used while it keeps them."""

CLONE_NEWNET = 0x4000_0000
"""include/uapi/linux/sched.h; `os.unshare` exists from Python 3.12 on."""

SETTLE_S = 30.0
"""Time for the kernel to free a namespace in a work queue (`cleanup_net`) after its last user has ended [s]."""

NAMESPACE = re.compile(r"net:\[\d+\]")


def namespaces() -> set[str]:
    """Return network namespaces, as ``net:[NUMBER]``, of threads, descriptors and mounts that this user may read."""
    names = set()
    for process in processes():
        for link in [*_all(process, "task/*/ns/net"), *_all(process, "fd/*")]:
            names |= _named(link)
        with contextlib.suppress(OSError):
            mounts = (process / "mountinfo").read_text(encoding="utf-8", errors="replace")
            # proc_pid_mountinfo(5): root of the mount, and after the dash the type of file system
            names |= {fields[3] for line in mounts.splitlines() if " - nsfs " in line and (fields := line.split())}
    return {name for name in names if NAMESPACE.fullmatch(name)}


def devices() -> set[tuple[str, str]]:
    """Return (namespace, name) of each network device in a namespace with a thread.

    Devices in other namespaces are not listed; `namespaces` has those namespaces.
    """
    names = set()
    seen: set[str] = set()
    for process in processes():
        for task in _all(process, "task/*"):
            for namespace in _named(task / "ns" / "net") - seen:
                with contextlib.suppress(OSError):
                    table = (task / "net" / "dev").read_text(encoding="utf-8", errors="replace")
                    seen.add(namespace)
                    # two lines of heading; NAME: counters
                    names |= {(namespace, line.partition(":")[0].strip()) for line in table.splitlines()[2:]}
    return names


def counted_namespaces() -> int | None:
    """Return the kernel's number of network namespaces; None: the kernel does not report it to this user.

    The kernel keeps the memory of the last ended namespaces until another one ends (`net_complete_free` in
    net_namespace.c), so this creates and ends one.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        SHRINK.write_text("1", encoding="ascii")  # refused to all but root
        passing = threading.Thread(target=ctypes.CDLL(None).unshare, args=(CLONE_NEWNET,))
        passing.start()
        passing.join()
        time.sleep(0.2)
        SHRINK.write_text("1", encoding="ascii")
        for line in SLAB.read_text(encoding="ascii").splitlines():
            if line.startswith("net_namespace "):
                return int(line.split()[1])  # slabinfo(5): active_objs
    return None


def least_counted(looks: int = 10) -> int | None:
    """Return the smallest of several counts, so that namespaces about to vanish are not counted."""
    counts = [counted_namespaces() for _ in range(looks)]
    return min((count for count in counts if count is not None), default=None)


def descriptors() -> int:
    """Return the number of open descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


def left_of(look: Callable[[], Set[object]], before: Set[object], within_s: float = SETTLE_S) -> Set[object]:
    """Return new members of the set that `look` returns, after waiting up to `within_s` for them to vanish."""
    deadline = time.monotonic() + within_s
    while (left := look() - before) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def more_than(look: Callable[[], int | None], before: int, within_s: float = SETTLE_S) -> int:
    """Return by how much the count of `look` exceeds `before`, after waiting up to `within_s` for it to fall."""
    deadline = time.monotonic() + within_s
    while (more := (look() or 0) - before) > 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    return max(0, more)


def _all(process: Path, pattern: str) -> list[Path]:
    """Return matching paths; empty if the process has ended or belongs to another user."""
    with contextlib.suppress(OSError):
        return list(process.glob(pattern))
    return []


def _named(link: Path) -> set[str]:
    """Return the target of a link; empty if it cannot be read."""
    with contextlib.suppress(OSError):
        return {os.readlink(link)}  # noqa: PTH115 - not a path
    return set()
