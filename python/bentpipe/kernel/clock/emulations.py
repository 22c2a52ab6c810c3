"""Runs of a Profile on this machine, from the command lines of its processes: to notice that one has ended."""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")
EMULATING = {
    ("run",): "",
    ("shell",): "",
    ("race",): "--on-kernel",
    ("call",): "--browser",
    ("video", "race"): "--browser",
    ("web", "load"): "--browser",
}
"""Subcommands that emulate a Profile, each with the option that makes it do so; empty: it always does."""


class Emulations:
    """Processes of `bentpipe run`, `bentpipe race --on-kernel` and others that emulate a Profile's file.

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
            words = emulating([os.fsdecode(word) for word in (folder / "cmdline").read_bytes().split(b"\0")])
            name = "" if self._file is None else self._file.name
            named = [word for word in words if Path(word).name == name]
            return any((folder / "cwd" / word).resolve() == self._file for word in named)
        except (OSError, ValueError):
            return False  # it has ended, or is another user's


def emulating(line: list[str]) -> list[str]:
    """Return bentpipe's own words of a command line that emulates; empty: it does not.

    Example:
        >>> from bentpipe.kernel.clock.emulations import emulating
        >>> emulating(["python", "/usr/bin/bentpipe", "run", "P.parquet", "--", "cat", "Q.parquet"])
        ['run', 'P.parquet']
        >>> emulating(["bentpipe", "race", "P.parquet", "--cc", "bbr"])
        []
    """
    at = next((place for place, word in enumerate(line[:6]) if Path(word).name == "bentpipe"), None)
    if at is None:
        return []
    words = line[at + 1 : line.index("--", at)] if "--" in line[at:] else line[at + 1 :]
    words = words[1:] if words[:1] == ["--debug"] else words
    options = [option for command, option in EMULATING.items() if words[: len(command)] == list(command)]
    return words if any(not option or option in words for option in options) else []
