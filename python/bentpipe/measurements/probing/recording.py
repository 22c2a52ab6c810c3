"""A recording: what the engine said, in segments that survive a power cut, until a Run is made of it.

``<out>/<site>/<start time>.recording/`` with `probe.json` (what was asked) and a folder of segments for each table.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from bentpipe.errors import UserError
from bentpipe.files import atomic_write, read_bytes
from bentpipe.measurements.probing.spec import Spec
from bentpipe.runs.store import basic_utc, safe_name
from bentpipe.segments import Columns, Layout, Segments, Writer, about, holding, locked, parts

#: As `ledger.Row`, the time first.
PROBES: Columns = {
    "unix_ns": pl.Int64,
    "target": pl.Int16,
    "seq": pl.Int64,
    "rtt_ns": pl.Int64,
    "up_ns": pl.Int64,
    "down_ns": pl.Int64,
    "flags": pl.Int8,
    "late_ns": pl.Int64,
    "cause": pl.String,
}
#: As `trace.Hop`.
HOPS: Columns = {
    "unix_ns": pl.Int64,
    "target": pl.Int16,
    "ttl": pl.Int16,
    "address": pl.String,
    "rtt_ns": pl.Int64,
    "late_ns": pl.Int64,
}
#: What happened to the machine; `kind` is ``clock_jump`` or ``suspended``.
EVENTS: Columns = {"unix_ns": pl.Int64, "kind": pl.String, "target": pl.Int16, "text": pl.String, "by_s": pl.Float64}
#: `engine.Counts` as JSON, whenever they are others than before.
COUNTS: Columns = {"unix_ns": pl.Int64, "counts": pl.String}

#: Segments of six seconds, chosen here: of 100 probes a second some 7 kB are written anew twice a second, 1.4 GB a day,
#: about what a terminal's recorder writes.
LAYOUT = Layout(
    key="bentpipe.probe",
    format=1,
    tables={"probes": PROBES, "hops": HOPS, "events": EVENTS, "counts": COUNTS},
    segment_ns=6 * 10**9,
    segment_rows=100_000,
)

SUFFIX = ".recording"

#: Most rows that wait in memory while the disk is full. Chosen here: a quarter of an hour at a thousand probes a
#: second, some 200 MB.
FULL_ROWS = 1_000_000


@dataclass(frozen=True)
class Asked:
    """What a recording is of.

    Attributes:
        site: Where from.
        spec: What is probed.
        synchronised: Whether the user says that both ends' clocks are.
        part: Of a recording that is made into several Runs, which: 0, 1, ….
    """

    site: str
    spec: Spec
    synchronised: bool
    part: int = 0


class Recording:
    """One that is being written; the folder is its own.

    Args:
        out: Folder for Runs.
        asked: What is probed.
        start_unix_ns: When the first probe is due.
        on_full: Is told in one line when the disk is full, and when there is room again.

    Raises:
        UserError, StoreError: It cannot be written.
    """

    def __init__(self, out: Path, asked: Asked, start_unix_ns: int, on_full: Callable[[str], None]) -> None:
        """Makes it."""
        from bentpipe import __version__

        self.folder = _free(out / safe_name(asked.site), start_unix_ns)
        self._lock = locked(self.folder, "is being written; wait for its end")
        said = {
            "format": LAYOUT.format,
            "site": asked.site,
            "spec": json.loads(asked.spec.to_json()),
            "synchronised": asked.synchronised,
            "part": asked.part,
        }
        with atomic_write(self.folder / "probe.json") as file:
            file.write(json.dumps(said, indent=2).encode())
        made_by = f"bentpipe {__version__}"
        self._tables = {name: Segments(self.folder, name, made_by, LAYOUT) for name in LAYOUT.tables}
        self._writer = Writer(self._tables, on_full, full_rows=FULL_ROWS)

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        """A row, safe after `flush`."""
        self._tables[table].add(row)

    @property
    def is_waiting(self) -> bool:
        """Whether rows wait because the disk is full."""
        return self._writer.is_full

    def flush(self) -> None:
        """Puts what was added on the disk; where that is full, later."""
        self._writer.flush()

    def close(self) -> None:
        """After the last row; `finish` may have the folder then."""
        try:
            self._writer.close()
        finally:
            os.close(self._lock)


@contextlib.contextmanager
def taken(folder: Path) -> Iterator[Asked]:
    """A recording that nobody writes, held so that nobody else makes a Run of it; what it is of.

    Raises:
        UserError: It is being written, or is no recording of this version.
    """
    with holding(folder, "is being written; wait for its end"):
        yield _read_asked(folder)


def table(folder: Path, name: str) -> pl.DataFrame:
    """A table of a recording, sorted by time.

    Raises:
        UserError: A file does not read: a disk damaged it.
    """
    found = parts(folder / name, LAYOUT)
    if damaged := [path for path in found if about(path, LAYOUT) is None]:
        raise UserError(f"{damaged[0]}: does not read as part of a recording; move it away")
    if not found:
        return pl.DataFrame(schema=dict(LAYOUT.tables[name]))
    return pl.concat([pl.read_parquet(path, glob=False) for path in found]).sort("unix_ns", maintain_order=True)


def unfinished(out: Path) -> list[Path]:
    """Recordings below a folder for Runs that nobody writes."""
    found = []
    for folder in sorted(out.glob(f"*/*{SUFFIX}")):
        with contextlib.suppress(UserError), taken(folder):
            found.append(folder)
    return found


def _read_asked(folder: Path) -> Asked:
    try:
        said = json.loads(read_bytes(folder / "probe.json", 1 << 20))
        if said["format"] > LAYOUT.format:
            found = f"has format {said['format']}, this bentpipe reads up to {LAYOUT.format}: install a newer one"
            raise UserError(f"{folder}: {found}")
        spec = Spec.from_json(json.dumps(said["spec"]))
        return Asked(str(said["site"]), spec, bool(said["synchronised"]), int(said["part"]))
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{folder / 'probe.json'}: does not say what was probed ({error}); remove the folder") from None


def _free(site: Path, start_unix_ns: int) -> Path:
    stem = basic_utc(start_unix_ns // 10**9 * 10**9)
    folder, number = site / f"{stem}{SUFFIX}", 2
    while folder.exists():
        folder, number = site / f"{stem}~{number}{SUFFIX}", number + 1
    return folder
