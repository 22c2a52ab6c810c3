"""Options and results that the readers of other tools' formats share."""

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
    """Values that a file may lack.

    Attributes:
        name: The Profile's name; default: the file's name.
        start_unix_ns: Start [ns since 1970]; default: the start in the file, or 1970 if it has none.
        direction: Direction of a file that has only one.
        bin_s: Bin width of the capacity [s] (packet-delivery traces).
        delay_s: One-way delay [s] of both directions, for files without delays.
        queue: Queue limit, which no measurement contains.
    """

    name: str | None = None
    start_unix_ns: int | None = None
    direction: Literal["up", "down"] = "down"
    bin_s: float = 0.1
    delay_s: float | None = None
    queue: QueueLimit = field(default_factory=lambda: parse_queue(DEFAULT_QUEUE, "queue"))

    def limit(self) -> dict[str, int]:
        """Return the queue limit as in the metadata."""
        return queue_limit(self.queue)

    def name_for(self, path: str | os.PathLike[str]) -> str:
        """Return the name, or the file's name without its folder."""
        return self.name or Path(path).name


@dataclass(frozen=True)
class Converted:
    """A Profile that was read, and notes about assumed or missing values."""

    profile: Profile
    notes: Sequence[str] = ()


def one_path(paths: Paths, description: str) -> str | os.PathLike[str]:
    """Return the only path. Raises `UserError` if there is not exactly one."""
    if len(paths) != 1:
        raise UserError(f"{len(paths)} files given; {description} is read from one")
    return paths[0]
