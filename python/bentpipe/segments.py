"""Append-only Parquet: a short open segment, replaced whole at every flush, and closed ones put together by the hour.

A Parquet file has its footer at the end, so a file that is being appended to cannot be read after a crash. Here no
such file exists: the open segment holds a minute at most and is written anew, beside itself, flushed to the disk and
renamed, each time rows are flushed. Whatever ends the process or the power, every file is whole, and what was flushed
is in one of them. Closed segments of a past hour become one file; its metadata name what it replaces, so that a crash
before those are deleted doubles nothing for who asks `parts` what there is.
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
    """What a recording's files are.

    Attributes:
        key: Key of the files' metadata: JSON with `format`, `made_by`, `table` and, of a put-together file, `replaces`.
        format: Version of the layout; a reader refuses a higher one.
        tables: The columns of each table. The first is the time of the row [ns since 1970]; put-together files are
            sorted by it.
        as_written: Tables whose rows mean something in the order in which they were written alone: not sorted. A clock
            that is set back makes that another order.
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

#: Names: the UTC of the first row, then a number that tells apart what begins in the same millisecond; and an hour.
_SEGMENT = re.compile(r"(?P<hour>[0-9]{8}T[0-9]{2})[0-9]{4}\.[0-9]{3}Z(-[0-9]+)?\.parquet\Z")
_HOUR = re.compile(r"[0-9]{8}T[0-9]{2}Z\.parquet\Z")
#: What `bentpipe.files.atomic_write` leaves when the process is killed inside it.
_LEFT_OVER = re.compile(r"\..*\.parquet\.[0-9]+\.[0-9]+\.tmp\Z")


class Segments:
    """Writes one table of a recording.

    Attributes:
        set_aside: Files that a failing disk damaged: found at the start and renamed, so that they stop nothing.
    """

    def __init__(self, root: Path, table: str, made_by: str, layout: Layout) -> None:
        """Makes the folder, removes what a killed process left half-written, and finishes its putting together."""
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
        """Whether a row of that time is the first of its segment."""
        return not self._rows or t_unix_ns // _HOUR_NS > self._rows[0][0] // _HOUR_NS

    def add(self, row: Sequence[Any]) -> None:
        """A row for the open segment; it is safe after `flush`. No segment reaches over the full hour."""
        if self._rows and self.begins_with(row[0]):
            self.end()
        self._rows.append(tuple(row))
        self._pending = True

    @property
    def waiting(self) -> int:
        """How many rows are in segments that are not on the disk, or not whole."""
        return sum(len(rows) for _, rows in self._ended) + (len(self._rows) if self._pending else 0)

    def end(self) -> None:
        """Let the next row begin a new segment; `flush` puts this one on the disk."""
        if self._rows:
            path = self._path or self._free_name(self._rows[0][0])
            self._ended.append((path, self._rows if self._pending else []))
        self._rows, self._path, self._pending = [], None, False

    def flush(self) -> None:
        """Puts what was added on the disk.

        Raises:
            UserError, StoreError: The disk refuses; what was flushed before stays, the rest waits for the next flush.
        """
        if self._rows and self._pending and self._is_long():
            self.end()
        if self._ended:
            while self._ended:
                path, rows = self._ended[0]
                if rows:
                    self._write_rows(path, rows)
                self._ended.popleft()
            # What stays in small files is put together at the next end of a segment.
            with contextlib.suppress(DiskFullError):
                self.put_together(but=path.name[:11])
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
        """Ends the open segment, and puts those of past hours together."""
        self.end()
        self.flush()

    def put_together(self, but: str = "") -> None:
        """Makes one file of the closed segments of every hour except one."""
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
        said = {"format": self._layout.format, "made_by": self._made_by, "table": self._table, "replaces": replaces}
        buffer = io.BytesIO()
        # Statistics are a third of a small file, which is written every second, and of use in a large one.
        frame.write_parquet(
            buffer, compression="zstd", statistics=bool(replaces), metadata={self._layout.key: json.dumps(said)}
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


#: While the disk is full: how often writing is tried [s]; how long the end of a recording waits for room [s]; and how
#: many rows wait in memory at most. Chosen here: a day of one sample a second takes less than 200 MB.
FULL_RETRY_S, FULL_END_S, FULL_ROWS = 1.0, 10.0, 86_400


class Writer:
    """Writes several tables of a recording, and waits where the disk is full: rows stay in memory until there is room.

    Args:
        tables: Each with its name.
        on_full: Is told in one line when the disk is full, and when there is room again.
        full_rows: Most rows that wait in memory.
    """

    def __init__(
        self, tables: Mapping[str, Segments], on_full: Callable[[str], None], *, full_rows: int = FULL_ROWS
    ) -> None:
        """Writes nothing."""
        self._tables, self._on_full, self._full_rows = tables, on_full, full_rows
        self._full_since_s: float | None = None
        self._tried_s = 0.0

    @property
    def is_full(self) -> bool:
        """Whether the disk was full when it was last tried."""
        return self._full_since_s is not None

    def flush(self) -> None:
        """Puts all rows on the disk; where it is full, later.

        Raises:
            UserError, StoreError: The disk refuses, or it is full and too many rows wait.
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
                raise DiskFullError(f"{error}; {waiting} rows wait, more than memory shall hold: make room") from error
            return
        if self._full_since_s is not None:
            lasted_s = time.monotonic() - self._full_since_s
            self._full_since_s = None
            self._on_full(f"the disk has room again after {lasted_s:.0f} s; no row was lost")

    def end(self) -> None:
        """Begins new segments with the next rows."""
        for table in self._tables.values():
            table.end()
        self.flush()

    def close(self) -> None:
        """Ends all segments; where the disk is full, waits `FULL_END_S` for room.

        Raises:
            UserError, StoreError: The disk refuses, or it stays full; the rows that waited are lost.
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
                    raise DiskFullError(f"{error}; the last {lost} rows are lost, what came before is kept") from error
                time.sleep(FULL_RETRY_S)
            else:
                return


def parts(folder: Path, layout: Layout) -> list[Path]:
    """The files of a table, in order of their names, without those that others replace."""
    if not folder.is_dir():
        return []
    gone = set(replaced(folder, layout))
    named = (path for path in sorted(folder.iterdir()) if _SEGMENT.match(path.name) or _HOUR.match(path.name))
    return [path for path in named if path not in gone]


def replaced(folder: Path, layout: Layout) -> list[Path]:
    """Segments that an hour's file holds already: left by a crash between its rename and their removal."""
    # Only hours that have segments: of a year's there are thousands, and asking each takes seconds.
    hours = {match["hour"] for path in folder.iterdir() if (match := _SEGMENT.match(path.name))}
    wholes = [whole for hour in sorted(hours) if (whole := folder / f"{hour}Z.parquet").exists()]
    found = [folder / name for path in wholes for name in (about(path, layout) or {}).get("replaces", [])]
    return [path for path in found if path.exists()]


def about(path: Path, layout: Layout) -> dict[str, Any] | None:
    """What a file says of itself; None if it does not read as part of a recording."""
    try:
        said: dict[str, Any] = guarded(lambda: json.loads(pl.read_parquet_metadata(path)[layout.key]), UserError)
    except UserError:
        return None
    return said if isinstance(said, dict) and isinstance(said.get("format"), int) else None


def locked(folder: Path, busy: str) -> int:
    """The folder, made if need be, and its lock, which the kernel gives free when the process ends, however it ends.

    Args:
        folder: Of a recording.
        busy: What to say if another process has it.

    Raises:
        UserError: It cannot be written, or another process has it.
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
    """Holds the lock of a folder inside; arguments and errors as `locked`."""
    lock = locked(folder, busy)
    try:
        yield
    finally:
        os.close(lock)


def is_locked(folder: Path) -> bool:
    """Whether another process has the folder's lock now."""
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
