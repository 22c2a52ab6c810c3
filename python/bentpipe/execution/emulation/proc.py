"""Processes and threads in `/proc`."""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")

UTIME, STIME = 11, 12
"""Indices into `stat_fields` (proc_pid_stat(5): fields 14 and 15)."""


def processes() -> list[Path]:
    """Return the folders of all processes; any of them may end at any time."""
    return [folder for folder in PROC.iterdir() if folder.name.isdigit()]


def stat_fields(folder: Path) -> list[str]:
    """Return the fields of a process's or thread's `stat` after its name (proc_pid_stat(5): from field 3, the state).

    Raises:
        OSError: it does not exist.
    """
    # The name is in brackets and may contain any character, brackets and spaces too.
    return (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def cpu_time_s(folder: Path) -> float:
    """Return the processor time of a process or thread so far [s].

    Raises:
        OSError: it does not exist.
    """
    fields = stat_fields(folder)
    return (int(fields[UTIME]) + int(fields[STIME])) / os.sysconf("SC_CLK_TCK")
