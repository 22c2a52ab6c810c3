"""What an emulation may leave on a machine: network namespaces and network devices, wherever they are.

A namespace belongs to a thread, is held by an open descriptor, or by a mount (``ip netns add`` makes one); the process
that made it may be gone. As root there is the kernel's own count of all of them, too, which needs nobody to hold one.
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
"""Written to, the kernel gives back the cache's unused objects, which it counts as used as long as it keeps them."""

CLONE_NEWNET = 0x4000_0000
"""include/uapi/linux/sched.h; `os.unshare` is there from Python 3.12 on."""

SETTLE_S = 30.0
"""The kernel frees a namespace in a work queue (`cleanup_net`), some time after the last one has left it."""

NAMESPACE = re.compile(r"net:\[\d+\]")


def namespaces() -> set[str]:
    """Network namespaces, as ``net:[NUMBER]``, of threads, descriptors and mounts that this user may look at."""
    found = set()
    for process in processes():
        for link in [*_all(process, "task/*/ns/net"), *_all(process, "fd/*")]:
            found |= _named(link)
        with contextlib.suppress(OSError):
            mounts = (process / "mountinfo").read_text(encoding="utf-8", errors="replace")
            # proc_pid_mountinfo(5): root of the mount, and behind the dash the file system's type
            found |= {fields[3] for line in mounts.splitlines() if " - nsfs " in line and (fields := line.split())}
    return {name for name in found if NAMESPACE.fullmatch(name)}


def devices() -> set[tuple[str, str]]:
    """(namespace, name) of each network device in a namespace in which a thread is.

    One in another namespace is not seen, but that namespace is.
    """
    found = set()
    seen: set[str] = set()
    for process in processes():
        for task in _all(process, "task/*"):
            for namespace in _named(task / "ns" / "net") - seen:
                with contextlib.suppress(OSError):
                    table = (task / "net" / "dev").read_text(encoding="utf-8", errors="replace")
                    seen.add(namespace)
                    # two lines of heading; NAME: counters
                    found |= {(namespace, line.partition(":")[0].strip()) for line in table.splitlines()[2:]}
    return found


def counted_namespaces() -> int | None:
    """How many the kernel has; None where it does not say, or not to this user.

    The memory of the last ones that ended it keeps until another ends (`net_complete_free` in net_namespace.c): so one
    is made here, and ends.
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
    """The least of some looks at `counted_namespaces`: what is only about to go is gone by then."""
    counts = [counted_namespaces() for _ in range(looks)]
    return min((count for count in counts if count is not None), default=None)


def descriptors() -> int:
    """Of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


def left_of(look: Callable[[], Set[object]], before: Set[object], within_s: float = SETTLE_S) -> Set[object]:
    """What `look` finds that was not there `before`, once nothing is or the time is over."""
    deadline = time.monotonic() + within_s
    while (left := look() - before) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def more_than(look: Callable[[], int | None], before: int, within_s: float = SETTLE_S) -> int:
    """By how much `look` exceeds `before`, once it does not or the time is over."""
    deadline = time.monotonic() + within_s
    while (more := (look() or 0) - before) > 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    return max(0, more)


def _all(process: Path, pattern: str) -> list[Path]:
    """Of a process that may end meanwhile, or is not this user's."""
    with contextlib.suppress(OSError):
        return list(process.glob(pattern))
    return []


def _named(link: Path) -> set[str]:
    with contextlib.suppress(OSError):
        return {os.readlink(link)}  # noqa: PTH115 - not a path
    return set()
