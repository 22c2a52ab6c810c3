"""Keep a recording within a disk budget: the oldest hours go first."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from bentpipe.measurements.dish.recording.tables import LAYOUT, TABLES
from bentpipe.segments import parts

if TYPE_CHECKING:
    from pathlib import Path

_HOUR_CHARS = len("20260510T09")


def keep_within(folder: Path, budget_bytes: int) -> list[Path]:
    """Remove the oldest files of a recording until it fits; return the removed ones.

    Of each table the two newest files stay: the recorder writes them. To be called in the recorder's thread, which
    merges files.
    """
    files = {path: size for table in TABLES for path in _closed(folder / table) if (size := _size(path)) is not None}
    total = sum(size for table in TABLES for path in parts(folder / table, LAYOUT) if (size := _size(path)) is not None)
    removed: list[Path] = []
    # By the hour, so that samples, events and maps of a time go together; within the newest hour one by one.
    for path in sorted(files, key=lambda each: (each.name[:_HOUR_CHARS], each.name)):
        if total <= budget_bytes:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            total -= files[path]
            removed.append(path)
    return removed


def _closed(folder: Path) -> list[Path]:
    """Return the files of a table but the two newest."""
    return sorted(parts(folder, LAYOUT), key=lambda path: (path.name[:_HOUR_CHARS], path.stat().st_mtime_ns))[:-2]


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
