"""Append-only Parquet: a short open segment, rewritten at every flush, and closed segments merged by the hour.

A Parquet file has its footer at the end, so a file that is being appended to cannot be read after a crash. Here, the
open segment holds at most a minute. Each flush writes it to a temporary file, syncs it and renames it. So after a crash
or a power cut every file is whole and contains all flushed rows. Closed segments of a past hour are merged into one
file. Its metadata name the replaced segments, so that a crash before their deletion duplicates no rows in `parts`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import json
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from bentpipe.damage import guarded
from bentpipe.errors import DiskFullError, UserError
from bentpipe.files import replace_file, write_error

#: Column type; `pl.DataTypeClass` and its instances have no common name in Polars' public types.
Columns = Mapping[str, "type[pl.DataType] | pl.DataType"]


@dataclass(frozen=True)
class Layout:
    """Layout of a recording's files.

    Attributes:
        key: Key of the files' metadata: JSON with `format`, `made_by`, `table` and, of a merged file, `replaces`.
        format: Version of the layout; a reader refuses a higher one.
        tables: The columns of each table. The first is the time of the row [ns since 1970]; merged files are sorted by
            it.
        as_written: Tables that are not sorted, because only the order of writing has a meaning. It differs from the
            order in time if the clock is set back.
        segment_ns: The open segment is closed after this much time [ns].
        segment_rows: Or this many rows.
    """

    key: str
    format: int
    tables: Mapping[str, Columns]
    segment_ns: int
    segment_rows: int
    as_written: frozenset[str] = frozenset()


_HOUR_NS = 3600 * 10**9

#: Names: of a segment, the UTC of the first row and a number for equal milliseconds; of a merged file, its hour.
_SEGMENT = re.compile(r"(?P<hour>[0-9]{8}T[0-9]{2})[0-9]{4}\.[0-9]{3}Z(-[0-9]+)?\.parquet\Z")
_HOUR = re.compile(r"[0-9]{8}T[0-9]{2}Z\.parquet\Z")
#: Temporary file of `bentpipe.files.atomic_write`, left by a killed process.
_LEFT_OVER = re.compile(r"\..*\.parquet\.[0-9]+\.[0-9]+\.tmp\Z")


class Segments:
    """Writer of one table of a recording.

    Attributes:
        set_aside: Files damaged by a failing disk. They are detected at the start and renamed, so that they do no harm.
    """

    def __init__(self, root: Path, table: str, made_by: str, layout: Layout) -> None:
        """Make the folder, remove temporary files of a killed process, and finish its merging."""
        self.folder = root / table
        self._table, self._schema, self._made_by, self._layout = table, layout.tables[table], made_by, layout
        self._time = next(iter(self._schema))
        self._rows: list[tuple[Any, ...]] = []
        self._path: Path | None = None
        self._ended: deque[tuple[Path, list[tuple[Any, ...]]]] = deque()
        self._pending = False
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.iterdir():
            if _LEFT_OVER.match(path.name):
                path.unlink()
        self.set_aside = [path for path in parts(self.folder, layout) if about(path, layout) is None]
        for path in self.set_aside:
            path.rename(path.with_name(f"{path.name}.damaged"))
        for path in replaced(self.folder, layout):
            path.unlink()

    def begins_with(self, t_unix_ns: int) -> bool:
        """Tell whether a row of that time is the first of its segment."""
        return not self._rows or t_unix_ns // _HOUR_NS > self._rows[0][0] // _HOUR_NS

    def add(self, row: Sequence[Any]) -> None:
        """Add a row to the open segment; it is on the disk after `flush`. No segment crosses a full hour."""
        if self._rows and self.begins_with(row[0]):
            self.end()
        self._rows.append(tuple(row))
        self._pending = True

    @property
    def waiting(self) -> int:
        """Number of rows that are not yet on the disk."""
        return sum(len(rows) for _, rows in self._ended) + (len(self._rows) if self._pending else 0)

    def end(self) -> None:
        """Let the next row begin a new segment; `flush` writes this one to the disk."""
        if self._rows:
            path = self._path or self._free_name(self._rows[0][0])
            self._ended.append((path, self._rows if self._pending else []))
        self._rows, self._path, self._pending = [], None, False

    def flush(self) -> None:
        """Write added rows to the disk.

        Raises:
            UserError, StoreError: The disk cannot be written; earlier rows are unchanged, the rest waits for the next
                flush.
        """
        if self._rows and self._pending and self._is_long():
            self.end()
        if self._ended:
            while self._ended:
                path, rows = self._ended[0]
                if rows:
                    self._write_rows(path, rows)
                self._ended.popleft()
            # Remaining small files are merged at the next end of a segment.
            with contextlib.suppress(DiskFullError):
                self.merge_hours(but=path.name[:11])
        if self._pending:
            self._path = self._path or self._free_name(self._rows[0][0])
            self._write_rows(self._path, self._rows)
            self._pending = False

    def _is_long(self) -> bool:
        lasted_ns = self._rows[-1][0] - self._rows[0][0]
        return lasted_ns >= self._layout.segment_ns or len(self._rows) >= self._layout.segment_rows

    def _write_rows(self, path: Path, rows: list[tuple[Any, ...]]) -> None:
        self._write(path, pl.DataFrame(rows, schema=dict(self._schema), orient="row"), [])

    def close(self) -> None:
        """End the open segment, and merge those of past hours."""
        self.end()
        self.flush()

    def merge_hours(self, but: str = "") -> None:
        """Merge the closed segments of every hour except one."""
        hours: dict[str, list[Path]] = {}
        for path in sorted(self.folder.iterdir()):
            match = _SEGMENT.match(path.name)
            if match is not None and match["hour"] != but:
                hours.setdefault(match["hour"], []).append(path)
        for hour, parts in hours.items():
            whole = self.folder / f"{hour}Z.parquet"
            frame = pl.concat([pl.read_parquet(p, glob=False) for p in ([whole] if whole.exists() else []) + parts])
            if self._table not in self._layout.as_written:
                frame = frame.sort(self._time, maintain_order=True)
            self._write(whole, frame, [part.name for part in parts])
            for part in parts:
                part.unlink()

    def _write(self, path: Path, frame: pl.DataFrame, replaces: list[str]) -> None:
        header = {"format": self._layout.format, "made_by": self._made_by, "table": self._table, "replaces": replaces}
        buffer = io.BytesIO()
        # Statistics are a third of a small file, which is written every second, and useful only in a large one.
        frame.write_parquet(
            buffer, compression="zstd", statistics=bool(replaces), metadata={self._layout.key: json.dumps(header)}
        )
        replace_file(path, buffer.getbuffer())

    def _free_name(self, t_unix_ns: int) -> Path:
        at = datetime.fromtimestamp(t_unix_ns // 10**9, UTC)
        stem = f"{at:%Y%m%dT%H%M%S}.{t_unix_ns // 10**6 % 1000:03d}Z"
        path, number = self.folder / f"{stem}.parquet", 1
        taken = {ended for ended, _ in self._ended}
        while path.exists() or path in taken:  # the clock was set back
            path, number = self.folder / f"{stem}-{number}.parquet", number + 1
        return path


#: While the disk is full: interval of attempts [s]; longest wait for room at the end of a recording [s]; largest number
#: of rows that wait in memory. Chosen here: a day of one sample a second takes less than 200 MB.
FULL_RETRY_S, FULL_END_S, FULL_ROWS = 1.0, 10.0, 86_400


class Writer:
    """Writer of several tables of a recording. While the disk is full, rows wait in memory.

    Args:
        tables: The tables by name.
        on_full: Receives a line when the disk is full, and when there is room again.
        full_rows: Largest number of rows that wait in memory.
    """

    def __init__(
        self, tables: Mapping[str, Segments], on_full: Callable[[str], None], *, full_rows: int = FULL_ROWS
    ) -> None:
        """Set up the writer; nothing is written yet."""
        self._tables, self._on_full, self._full_rows = tables, on_full, full_rows
        self._full_since_s: float | None = None
        self._tried_s = 0.0

    @property
    def is_full(self) -> bool:
        """Whether the disk was full at the last attempt."""
        return self._full_since_s is not None

    def flush(self) -> None:
        """Write all rows to the disk; if it is full, later.

        Raises:
            UserError, StoreError: The disk cannot be written, or it is full and too many rows wait.
        """
        if self._full_since_s is not None and time.monotonic() - self._tried_s < FULL_RETRY_S:
            return
        try:
            for table in self._tables.values():
                table.flush()
        except DiskFullError as error:
            self._tried_s = time.monotonic()
            if self._full_since_s is None:
                self._full_since_s = self._tried_s
                self._on_full(f"{error}; rows wait in memory until there is room")
            waiting = sum(table.waiting for table in self._tables.values())
            if waiting > self._full_rows:
                raise DiskFullError(
                    f"{error}; {waiting} rows wait in memory, expected at most {self._full_rows}; make room"
                ) from error
            return
        if self._full_since_s is not None:
            lasted_s = time.monotonic() - self._full_since_s
            self._full_since_s = None
            self._on_full(f"the disk has room again after {lasted_s:.0f} s; no row was lost")

    def end(self) -> None:
        """Begin new segments with the next rows."""
        for table in self._tables.values():
            table.end()
        self.flush()

    def close(self) -> None:
        """End all segments; if the disk is full, wait `FULL_END_S` for room.

        Raises:
            UserError, StoreError: The disk cannot be written, or it stays full; the waiting rows are lost.
        """
        for table in self._tables.values():
            table.end()
        until_s = time.monotonic() + FULL_END_S
        while True:
            try:
                for table in self._tables.values():
                    table.flush()
            except DiskFullError as error:
                if time.monotonic() >= until_s:
                    lost = sum(table.waiting for table in self._tables.values())
                    raise DiskFullError(f"{error}; the last {lost} rows are lost, earlier rows are stored") from error
                time.sleep(FULL_RETRY_S)
            else:
                return


def parts(folder: Path, layout: Layout) -> list[Path]:
    """Return the files of a table, sorted by name, without replaced ones."""
    if not folder.is_dir():
        return []
    gone = set(replaced(folder, layout))
    named = (path for path in sorted(folder.iterdir()) if _SEGMENT.match(path.name) or _HOUR.match(path.name))
    return [path for path in named if path not in gone]


def replaced(folder: Path, layout: Layout) -> list[Path]:
    """Return segments that are already in an hour's file, left by a crash between its rename and their removal."""
    # Only hours with segments: a year has thousands of hours, and reading each takes seconds.
    hours = {match["hour"] for path in folder.iterdir() if (match := _SEGMENT.match(path.name))}
    wholes = [whole for hour in sorted(hours) if (whole := folder / f"{hour}Z.parquet").exists()]
    listed = [folder / name for path in wholes for name in (about(path, layout) or {}).get("replaces", [])]
    return [path for path in listed if path.exists()]


def about(path: Path, layout: Layout) -> dict[str, Any] | None:
    """Read a file's own metadata; None if it is no part of a recording."""
    try:
        header: dict[str, Any] = guarded(lambda: json.loads(pl.read_parquet_metadata(path)[layout.key]), UserError)
    except UserError:
        return None
    return header if isinstance(header, dict) and isinstance(header.get("format"), int) else None


def locked(folder: Path, busy: str) -> int:
    """Make a folder if necessary and lock it; the kernel releases the lock when the process ends.

    Args:
        folder: Folder of a recording.
        busy: Message if another process has the lock.

    Raises:
        UserError: The folder cannot be written, or another process has the lock.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise write_error(folder, error) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if error.errno == errno.EWOULDBLOCK:
            raise UserError(f"{folder}: {busy}") from None
        raise write_error(folder, error) from None
    return lock


@contextlib.contextmanager
def holding(folder: Path, busy: str) -> Iterator[None]:
    """Hold the lock of a folder inside the block; arguments and errors as in `locked`."""
    lock = locked(folder, busy)
    try:
        yield
    finally:
        # Closing is not enough: a process that another thread is starting has this descriptor until it executes its
        # program.
        fcntl.flock(lock, fcntl.LOCK_UN)
        os.close(lock)


def is_locked(folder: Path) -> bool:
    """Tell whether another process has the folder's lock now."""
    try:
        lock = os.open(folder / ".lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno == errno.EWOULDBLOCK
    finally:
        os.close(lock)
    return False
