"""The order that the agent gives to the processes inside, as a JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Order:
    """What the processes inside do; the agent writes it with `to_json`."""

    folder: str
    """Folder with the socket `control` and the pipe `gate`."""

    command: list[str]
    environment: dict[str, str]
    output: str
    """Folder on this machine that the program may write."""

    inputs: dict[str, str] = field(default_factory=dict)
    """Files on this machine that the program may read, by their name inside."""

    network: int | None = None
    """Descriptor of the network namespace; None: stay in this one."""

    resolv_conf: str | None = None
    """File that replaces /etc/resolv.conf; None: the one of the surroundings."""

    bubblewrap: str | None = None
    """Path of `bwrap`; None: this process makes the mounts itself."""

    readable: list[str] = field(default_factory=list)
    """Further folders that are visible inside."""

    hidden: list[str] = field(default_factory=list)
    """Folders that are empty inside (process)."""

    user: int | None = None
    """User and group of the program; None: as this process."""

    capabilities: list[int] = field(default_factory=list)
    cgroups: list[str] = field(default_factory=list)
    """Files that a process writes 0 to, to join."""

    memory_events: str = ""
    """The cgroup's file with the count of processes that the kernel killed for want of memory."""

    watches_processes: bool = False
    """Without cgroups: process 1 enforces memory and threads."""

    duration_s: float = 60.0
    grace_s: float = 2.0
    memory_bytes: int = 0
    pids: int = 0
    output_bytes: int = 0
    scratch_bytes: int = 0

    @classmethod
    def from_json(cls, text: str) -> Order:
        """Return the order of the file's text."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """Return the file's text."""
        return json.dumps(asdict(self))


STDOUT, STDERR = "stdout.txt", "stderr.txt"
"""Files in the output folder with what the program prints."""
