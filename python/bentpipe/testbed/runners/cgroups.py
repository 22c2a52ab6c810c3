"""Control groups of runs, version 1 or 2, below the agent's own: limits on the agent hold for its runs too.

All runs of an agent are in one group, ``<tag>runs``, with limits for all of them together.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from bentpipe.testbed.runners.request import Limits, Together

ATTEMPTS = 20
"""Attempts to make a group in that of all runs: whoever removes the last run removes that one too."""

LOG = logging.getLogger("bentpipe.testbed")
ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("memory", "pids", "cpu")
PERIOD_US = 100_000
"""Period of the processor quota [µs]: the kernel's default."""

REMOVE_S = 5.0
"""Time to wait for the last processes of a group to go [s]."""


@dataclass(frozen=True)
class Cgroup:
    """A group, in one folder (version 2) or in one for each controller (version 1)."""

    name: str
    folders: dict[str, Path]
    """Folder by controller; the same one for all in version 2."""

    version: int

    @property
    def parent(self) -> Cgroup:
        """The group of all runs that this one is in."""
        folders = {each: folder.parent for each, folder in self.folders.items()}
        return Cgroup(folders["memory"].name, folders, self.version)

    @property
    def join_files(self) -> list[str]:
        """Files that a process writes 0 to, to join."""
        return sorted({str(folder / "cgroup.procs") for folder in self.folders.values()})

    def limit(self, limits: Limits) -> None:
        """Set the limits. Raises `OSError`."""
        memory, cpu = self.folders["memory"], self.folders["cpu"]
        self._limit_memory_and_pids(limits.memory_bytes, limits.pids)
        if self.version == 1:
            if limits.cpus is not None:
                _write(cpu / "cpu.cfs_period_us", PERIOD_US)
                _write(cpu / "cpu.cfs_quota_us", int(limits.cpus * PERIOD_US))
        else:
            with contextlib.suppress(OSError):  # Linux 4.19: the whole run is killed, not one of its processes
                _write(memory / "memory.oom.group", 1)
            if limits.cpus is not None:
                _write(cpu / "cpu.max", f"{int(limits.cpus * PERIOD_US)} {PERIOD_US}")

    def limit_together(self, together: Together) -> None:
        """Set the limits of the group of all runs, also while they run. Raises `OSError`."""
        if self.version == 1:
            with contextlib.suppress(OSError):  # it is so already
                _write(self.folders["memory"] / "memory.use_hierarchy", 1)
        else:
            _write(self.folders["memory"] / "cgroup.subtree_control", " ".join(f"+{each}" for each in CONTROLLERS))
        try:
            self._limit_memory_and_pids(together.memory_bytes or machine_memory_bytes() // 2, together.pids)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            LOG.warning("%s: the smaller limit waits: its runs use more memory", self.name)  # version 1

    def _limit_memory_and_pids(self, memory_bytes: int, most_pids: int) -> None:
        memory = self.folders["memory"]
        if self.version == 1:
            with_swap = memory / "memory.memsw.limit_in_bytes"  # never below the other: first if it grows, else last
            with contextlib.suppress(OSError):  # a kernel without accounting of swap
                _write(with_swap, memory_bytes)
            _write(memory / "memory.limit_in_bytes", memory_bytes)
            with contextlib.suppress(OSError):
                _write(with_swap, memory_bytes)
        else:
            _write(memory / "memory.max", memory_bytes)
            with contextlib.suppress(OSError):
                _write(memory / "memory.swap.max", 0)
        _write(self.folders["pids"] / "pids.max", most_pids)

    @property
    def memory_events(self) -> str:
        """File with a line ``oom_kill N``."""
        return str(self.folders["memory"] / ("memory.oom_control" if self.version == 1 else "memory.events"))

    def oom_kills(self) -> int:
        """Return how many processes the kernel killed for want of memory."""
        return _field(Path(self.memory_events), "oom_kill")

    def forks_refused(self) -> int:
        """Return how often the limit on processes refused one."""
        return _field(self.folders["pids"] / "pids.events", "max")

    def peak_memory_bytes(self) -> int | None:
        """Return the largest use of memory; None: this kernel does not count it."""
        name = "memory.max_usage_in_bytes" if self.version == 1 else "memory.peak"
        try:
            return int((self.folders["memory"] / name).read_text())
        except OSError:
            return None

    def remove(self) -> bool:
        """Kill what is left in the group and remove it; return whether it is gone.

        A group whose processes do not end, for example in a system call that hangs, is logged and left to the next
        sweep: the agent has other runs.
        """
        deadline = time.monotonic() + REMOVE_S
        for folder in dict.fromkeys(self.folders.values()):
            while folder.is_dir():
                left = _kill(folder)
                try:
                    folder.rmdir()
                except OSError as error:
                    if time.monotonic() > deadline:
                        LOG.warning("%s: left behind: %s; processes: %s", folder, error.strerror, left or "none")
                        return False
                    time.sleep(0.005)
        return True

    def discard(self) -> None:
        """Remove the group of all runs if it has no more."""
        for folder in dict.fromkeys(self.folders.values()):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _kill(folder: Path) -> list[int]:
    """Kill the processes of a group and return them."""
    try:
        pids = [int(pid) for pid in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []
    for pid in pids:
        if pid > 0:  # 0: a process of another PID namespace
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
    return pids


def _write(path: Path, value: int | str) -> None:
    path.write_text(str(value), encoding="ascii")


def _field(path: Path, name: str) -> int:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), 0)


def own_folders(root: Path = ROOT, membership: str | None = None) -> tuple[int, dict[str, Path]] | None:
    """Return the version and this process's folder for each controller; None: they are not all mounted.

    Args:
        root: Where the groups are mounted.
        membership: Text of /proc/self/cgroup; None: this process's.
    """
    lines = (Path("/proc/self/cgroup").read_text() if membership is None else membership).splitlines()
    places = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        places.update(dict.fromkeys(controllers.split(",") if controllers else [""], path.lstrip("/")))
    unified = root / places.get("", "")
    if (unified / "cgroup.controllers").is_file():
        present = (unified / "cgroup.controllers").read_text().split()
        if all(each in present for each in CONTROLLERS):
            return 2, dict.fromkeys(CONTROLLERS, unified)
    folders = {each: root / each / places.get(each, "") for each in CONTROLLERS}
    if all((folder / "cgroup.procs").is_file() for folder in folders.values()):
        return 1, folders
    return None


def machine_memory_bytes() -> int:
    """Return this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def parent_name(name: str) -> str:
    """Return the name of the group of all runs of an agent, from its tag or the name of one of its runs."""
    return name[:7] + "runs"


def new_cgroup(name: str, together: Together) -> Cgroup | None:
    """Make a group for a run, in that of all runs; None: this process may not, or the machine has none.

    In version 2 only a group without processes of its own may have limited groups below it: the agent's unit needs
    ``Delegate=yes`` and ``DelegateSubgroup=`` (systemd 254).
    """
    own = own_folders()
    if own is None:
        return None
    version, parents = own
    if version == 2:
        parents = {each: _home(folder) for each, folder in parents.items()}
        try:
            _write(parents["memory"] / "cgroup.subtree_control", " ".join(f"+{each}" for each in CONTROLLERS))
        except OSError:
            return None
    parent = _inside(parent_name(name), parents, version)
    group = _inside(name, parent.folders, version)
    try:
        _make_both(parent, group, together)
    except OSError:
        with contextlib.suppress(OSError):
            group.remove()
        parent.discard()
        return None
    return group


def _make_both(parent: Cgroup, group: Cgroup, together: Together) -> None:
    """Make the group of a run and, if there is none, that of all. Raises `OSError`."""
    for attempt in range(ATTEMPTS):
        try:
            for folder in dict.fromkeys(parent.folders.values()):
                folder.mkdir(exist_ok=True)
            parent.limit_together(together)
            for folder in dict.fromkeys(group.folders.values()):
                folder.mkdir(exist_ok=attempt > 0)
            return
        except OSError as error:  # the last run was removed meanwhile, and the group of all with it
            if error.errno not in (errno.ENOENT, errno.ENODEV) or attempt == ATTEMPTS - 1:
                raise


def _inside(name: str, parents: Mapping[str, Path], version: int) -> Cgroup:
    return Cgroup(name, {each: folder / name for each, folder in parents.items()}, version)


def _home(folder: Path) -> Path:
    """Return where groups of version 2 may be made: beside the agent's own; the root may have processes of its own."""
    return folder if folder == ROOT else folder.parent


def sweep_cgroups(tag: str, keep: Collection[str]) -> list[str]:
    """Kill and remove the groups whose names start with `tag`, except those in `keep`; return their names."""
    own = own_folders()
    if own is None:
        return []
    version, folders = own
    homes = {each: _home(folder) if version == 2 else folder for each, folder in folders.items()}
    parent = _inside(parent_name(tag), homes, version)
    removed = []
    for parents in (parent.folders, homes):  # the second: of an agent of an older version
        names = {name for folder in set(parents.values()) for name in _children(folder, tag)}
        groups = [_inside(name, parents, version) for name in sorted(names - {*keep, parent.name})]
        removed += [group.name for group in groups if group.remove()]
    parent.discard()
    return removed


def _children(parent: Path, tag: str) -> list[str]:
    try:
        return [entry.name for entry in parent.iterdir() if entry.name.startswith(tag) and entry.is_dir()]
    except FileNotFoundError:
        return []
