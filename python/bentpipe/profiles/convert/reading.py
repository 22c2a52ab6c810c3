"""What the readers of other people's formats have in common: options, results, and checked numbers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bentpipe._native import Profile
from bentpipe.errors import UserError
from bentpipe.profiles.build import DEFAULT_QUEUE, queue_limit
from bentpipe.scenarios.units import QueueLimit, parse_queue

Paths = Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class ReadOptions:
    """What a file may not say about its path.

    Attributes:
        name: The Profile's name; by default the file's.
        start_unix_ns: When it starts [ns since 1970]; by default what the file says, or 1970 where it says nothing.
        direction: Which way the packets of a file with one direction go.
        bin_s: Width of the capacity's steps [s] (packet-delivery traces).
        delay_s: One-way delay [s], both directions, of files that hold none.
        queue: Limit of the queues; a measurement does not know it.
    """

    name: str | None = None
    start_unix_ns: int | None = None
    direction: Literal["up", "down"] = "down"
    bin_s: float = 0.1
    delay_s: float | None = None
    queue: QueueLimit = field(default_factory=lambda: parse_queue(DEFAULT_QUEUE, "queue"))

    def limit(self) -> dict[str, int]:
        """The queue as in the metadata."""
        return queue_limit(self.queue)

    def name_for(self, path: str | os.PathLike[str]) -> str:
        """The name, or the file's without its folder."""
        return self.name or Path(path).name


@dataclass(frozen=True)
class Converted:
    """A Profile that was read, and lines about what was left out or assumed."""

    profile: Profile
    notes: Sequence[str] = ()


def one_path(paths: Paths, what: str) -> str | os.PathLike[str]:
    """The only path there is. Raises `UserError` for more."""
    if len(paths) != 1:
        raise UserError(f"{len(paths)} files given; {what} is read from one")
    return paths[0]
