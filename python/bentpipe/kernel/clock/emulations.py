"""Runs of a Profile on this machine, from the command lines of its processes: to notice that one has ended."""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")


class Emulations:
    """Processes of `bentpipe run`, `bentpipe race` and others that name a Profile's file.

    Args:
        file: The Profile's file; None: their Profiles cannot be told apart, and none is noticed.
        proc: The folder of the processes.
    """

    def __init__(self, file: Path | None, proc: Path = PROC) -> None:
        """Look at no process yet."""
        self._file, self._proc = None if file is None else file.resolve(), proc
        self._were_seen = False

    def have_ended(self) -> bool:
        """Return whether there were some since the first call, and none is left.

        Example:
            >>> from bentpipe.kernel.clock.emulations import Emulations
            >>> Emulations(None).have_ended()
            False
        """
        if self._file is None:
            return False
        is_running = any(self._names(folder) for folder in self._proc.iterdir() if folder.name.isdigit())
        self._were_seen |= is_running
        return self._were_seen and not is_running

    def _names(self, folder: Path) -> bool:
        try:
            words = [os.fsdecode(word) for word in (folder / "cmdline").read_bytes().split(b"\0")]
            if not any(Path(word).name == "bentpipe" for word in words[:6]) or "clock" in words:
                return False
            name = "" if self._file is None else self._file.name
            named = [word for word in words if Path(word).name == name]
            return any((folder / "cwd" / word).resolve() == self._file for word in named)
        except (OSError, ValueError):
            return False  # it has ended, or is another user's
