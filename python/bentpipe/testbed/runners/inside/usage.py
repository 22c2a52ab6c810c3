"""Sizes of a folder and of a tree of processes, in code that a hostile program cannot make slow or wrong."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass

MAX_DEPTH = 64
"""Deeper folders count as too large: each level costs a descriptor."""

ENTRY_BYTES = 4096
"""Counted for each file beside its blocks, so that empty files are not free."""

_PRIVATE = re.compile(rb"^Rss(?:Anon|Shmem):\s*(\d+) kB", re.MULTILINE)


def folder_bytes(folder: str, limit_bytes: int) -> int:
    """Return the size of a folder's files, or a number above `limit_bytes` as soon as it is certain.

    A sparse file counts with its length: it is sent whole.

    Symbolic links are not followed, nor other file systems entered.
    """
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return 0
    return _folder_bytes(root, limit_bytes, 0, os.fstat(root).st_dev)


def _folder_bytes(descriptor: int, limit_bytes: int, depth: int, device: int) -> int:
    total = 0
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:  # removed meanwhile
                    continue
                total += max(status.st_blocks * 512, status.st_size) + ENTRY_BYTES
                if stat.S_ISDIR(status.st_mode) and status.st_dev == device:
                    if depth >= MAX_DEPTH:
                        return limit_bytes + 1
                    total += _inner(descriptor, entry.name, limit_bytes - total, depth, device)
                if total > limit_bytes:
                    return total
    finally:
        os.close(descriptor)
    return total


def _inner(parent: int, name: str, limit_bytes: int, depth: int, device: int) -> int:
    try:
        inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError:  # removed meanwhile, or made unreadable by its owner: its own entry is counted
        return 0
    return _folder_bytes(inner, limit_bytes, depth + 1, device)


@dataclass(frozen=True)
class TreeUsage:
    """Use of the processes in this PID namespace, without process 1."""

    threads: int
    memory_bytes: int


def tree_usage() -> TreeUsage:
    """Return the threads and the resident memory that is no file's of all processes but process 1."""
    threads = memory = 0
    for name in os.listdir("/proc"):  # noqa: PTH208 - the fastest
        if not name.isdigit() or name == "1":
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b")")[2].split()
            with open(f"/proc/{name}/status", "rb") as file:  # noqa: PTH123
                status = file.read()
        except OSError:  # ended meanwhile
            continue
        threads += int(fields[17])
        memory += sum(1024 * int(size) for size in _PRIVATE.findall(status))
    return TreeUsage(threads, memory)
