"""The view of the file system in the process runner: everything read-only but the output and a private /tmp."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.testbed.namespaces import linux

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.runners.inside.spec import Order

SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")
"""Folders that are empty, private and limited in size inside."""

COVERED = ("/run",)
"""Folders that are empty inside: they hold the sockets of the machine's services."""

INPUTS, OUTPUT = "/tmp/inputs", "/tmp/output"
"""Where the process runner puts the inputs and, beside its own place, the output: the program's user may not enter the
folders above that place."""


def private_mounts() -> None:
    """Keep the mounts of this process from the machine, and show the processes of its PID namespace in /proc.

    Raises:
        OSError: The kernel refused.
    """
    linux.mount("", "/", "", linux.MS_REC | linux.MS_PRIVATE)
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)


def enter_view(order: Order) -> None:
    """Mount the program's view. Raises `OSError`."""
    resolv_conf = os.path.realpath("/etc/resolv.conf")
    # Opened before the folders above them are covered, mounted by their descriptors afterwards.
    output = os.open(order.output, os.O_PATH | os.O_DIRECTORY)
    inputs = {name: os.open(path, os.O_PATH) for name, path in order.inputs.items()}
    names = order.resolv_conf and os.open(order.resolv_conf, os.O_PATH)
    linux.set_read_only("/", True, recursive=True)
    for folder in SCRATCH:
        if Path(folder).is_dir() and not Path(folder).is_symlink():
            _cover(folder, f"mode=1777,size={max(order.scratch_bytes, 4096)},nr_inodes=65536")
    closed = {} if order.user is None else {path: _closed_parent(path) for path in order.readable}
    readable = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path, parent in closed.items() if parent}
    covered = [*COVERED, *order.hidden, *sorted({parent for parent in closed.values() if parent})]
    covered = [folder for folder in outermost(covered) if Path(folder).is_dir()]  # one below /tmp is gone already
    for folder in covered:
        _cover(folder, "mode=755,size=65536,nr_inodes=256")
    for path, descriptor in readable.items():
        Path(path).mkdir(parents=True, exist_ok=True)
        linux.mount(f"/proc/self/fd/{descriptor}", path, "", linux.MS_BIND)
        linux.set_read_only(path, True, recursive=False)
        os.close(descriptor)
    if inputs:
        Path(INPUTS).mkdir(mode=0o755)
        for name, descriptor in inputs.items():
            _bind_file(descriptor, f"{INPUTS}/{name}")
    if names:
        _bind_file(names, resolv_conf)
    Path(order.output).mkdir(parents=True, exist_ok=True)
    linux.mount(f"/proc/self/fd/{output}", order.output, "", linux.MS_BIND)
    linux.set_read_only(order.output, False, recursive=False)
    if Path("/tmp").is_dir():
        Path(OUTPUT).mkdir()
        linux.mount(order.output, OUTPUT, "", linux.MS_BIND)
    for folder in covered:
        linux.set_read_only(folder, True, recursive=False)
    for descriptor in (output, *inputs.values(), *([names] if names else ())):
        os.close(descriptor)


def outermost(folders: Sequence[str]) -> list[str]:
    """Return the folders that are below none of the others: those are gone when the others are covered.

    Example:
        >>> outermost(["/var/node", "/var/node/runs", "/var/node-2"])
        ['/var/node', '/var/node-2']
    """
    paths = [Path(folder) for folder in dict.fromkeys(folders)]
    return [str(path) for path in paths if not any(parent in paths for parent in path.parents)]


def _closed_parent(path: str) -> str:
    """Return the outermost folder above `path` that other users may not enter; empty: there is none."""
    parents = reversed(Path(path).parents)
    return next((str(parent) for parent in parents if not parent.stat().st_mode & stat.S_IXOTH), "")


def _cover(folder: str, options: str) -> None:
    linux.mount("tmpfs", folder, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)


def _bind_file(descriptor: int, target: str) -> None:
    if not Path(target).exists():
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(target).touch()
    linux.mount(f"/proc/self/fd/{descriptor}", target, "", linux.MS_BIND)
    linux.set_read_only(target, True, recursive=False)
