"""Recording of the engine's messages in segments that survive a power cut, until a Run is made of it.

``<out>/<site>/<start time>.recording/`` with `probe.json` (the request) and a folder of segments for each table.
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

#: As `tracker.Row`, the time first.
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
#: Events of the machine; `kind` is ``clock_jump`` or ``suspended``.
EVENTS: Columns = {"unix_ns": pl.Int64, "kind": pl.String, "target": pl.Int16, "text": pl.String, "by_s": pl.Float64}
#: `engine.Counts` as JSON, whenever they change.
COUNTS: Columns = {"unix_ns": pl.Int64, "counts": pl.String}

#: Segments of six seconds, chosen here: at 100 probes a second some 7 kB are rewritten twice a second, 1.4 GB a day,
#: about as much as the dish recorder writes.
LAYOUT = Layout(
    key="bentpipe.probe",
    format=1,
    tables={"probes": PROBES, "hops": HOPS, "events": EVENTS, "counts": COUNTS},
    segment_ns=6 * 10**9,
    segment_rows=100_000,
)

SUFFIX = ".recording"

#: Most rows buffered in memory while the disk is full. Chosen here: a quarter of an hour at a thousand probes a
#: second, some 200 MB.
FULL_ROWS = 1_000_000


@dataclass(frozen=True)
class ProbeRequest:
    """Request of a recording.

    Attributes:
        site: Place of the measurement.
        spec: What to probe.
        synchronised: Whether the user states that both hosts' clocks are synchronised.
        part: Index of the Run, if a recording is split into several: 0, 1, ….
    """

    site: str
    spec: Spec
    synchronised: bool
    part: int = 0


class Recording:
    """Writer of a recording, in a folder of its own.

    Args:
        out: Folder for Runs.
        request: What is probed.
        start_unix_ns: When the first probe is due.
        on_full: Receives a line when the disk is full, and when there is room again.

    Raises:
        UserError, StoreError: The recording cannot be written.
    """

    def __init__(self, out: Path, request: ProbeRequest, start_unix_ns: int, on_full: Callable[[str], None]) -> None:
        """Create the folder and its `probe.json`."""
        from bentpipe import __version__

        self.folder = _free(out / safe_name(request.site), start_unix_ns)
        self._lock = locked(self.folder, "is being written; wait for its end")
        document = {
            "format": LAYOUT.format,
            "site": request.site,
            "spec": json.loads(request.spec.to_json()),
            "synchronised": request.synchronised,
            "part": request.part,
        }
        with atomic_write(self.folder / "probe.json") as file:
            file.write(json.dumps(document, indent=2).encode())
        made_by = f"bentpipe {__version__}"
        self._tables = {name: Segments(self.folder, name, made_by, LAYOUT) for name in LAYOUT.tables}
        self._writer = Writer(self._tables, on_full, full_rows=FULL_ROWS)

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        """Add a row; it is on disk after `flush`."""
        self._tables[table].add(row)

    @property
    def is_waiting(self) -> bool:
        """Whether rows wait because the disk is full."""
        return self._writer.is_full

    def flush(self) -> None:
        """Write added rows to the disk; if it is full, later."""
        self._writer.flush()

    def close(self) -> None:
        """Close the recording after the last row; `finish` may then convert it."""
        try:
            self._writer.close()
        finally:
            os.close(self._lock)


@contextlib.contextmanager
def held(folder: Path) -> Iterator[ProbeRequest]:
    """Lock a recording that is not being written, and return its request.

    Raises:
        UserError: It is being written, or is not a recording of this version.
    """
    with holding(folder, "is being written; wait for its end"):
        yield _read_request(folder)


def table(folder: Path, name: str) -> pl.DataFrame:
    """Return a table of a recording, sorted by time.

    Raises:
        UserError: A file is unreadable: a disk damaged it.
    """
    files = parts(folder / name, LAYOUT)
    if damaged := [path for path in files if about(path, LAYOUT) is None]:
        raise UserError(f"{damaged[0]}: does not read as part of a recording; move it away")
    if not files:
        return pl.DataFrame(schema=dict(LAYOUT.tables[name]))
    return pl.concat([pl.read_parquet(path, glob=False) for path in files]).sort("unix_ns", maintain_order=True)


def unfinished(out: Path) -> list[Path]:
    """Return the recordings below a folder for Runs that are not being written."""
    recordings = []
    for folder in sorted(out.glob(f"*/*{SUFFIX}")):
        with contextlib.suppress(UserError), held(folder):
            recordings.append(folder)
    return recordings


def _read_request(folder: Path) -> ProbeRequest:
    try:
        document = json.loads(read_bytes(folder / "probe.json", 1 << 20))
        if document["format"] > LAYOUT.format:
            raise UserError(
                f"{folder}: has format {document['format']}, this bentpipe reads up to {LAYOUT.format}: "
                "install a newer one"
            )
        spec = Spec.from_json(json.dumps(document["spec"]))
        return ProbeRequest(str(document["site"]), spec, bool(document["synchronised"]), int(document["part"]))
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
