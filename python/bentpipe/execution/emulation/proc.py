"""Processes and threads as `/proc` tells of them."""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")

UTIME, STIME = 11, 12
"""Places in `stat_fields` (proc_pid_stat(5): fields 14 and 15)."""


def processes() -> list[Path]:
    """The folders of all processes; each may end while it is looked at."""
    return [folder for folder in PROC.iterdir() if folder.name.isdigit()]


def stat_fields(folder: Path) -> list[str]:
    """What `stat` says of a process or thread behind its name, from the state on (proc_pid_stat(5): field 3).

    Raises:
        OSError: it is not there, or not any more.
    """
    # The name is in brackets, and may have any character in it, brackets and spaces too.
    return (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def worked_s(folder: Path) -> float:
    """Processor time of a process or thread so far [s].

    Raises:
        OSError: it is not there, or not any more.
    """
    fields = stat_fields(folder)
    return (int(fields[UTIME]) + int(fields[STIME])) / os.sysconf("SC_CLK_TCK")
