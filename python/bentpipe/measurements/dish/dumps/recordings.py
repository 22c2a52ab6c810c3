"""Read our own recordings: folders of Parquet segments."""

from __future__ import annotations

from pathlib import Path

from bentpipe.measurements.dish.recording.reading import scan_recording
from bentpipe.measurements.dish.recording.tables import LAYOUT, TABLES
from bentpipe.measurements.readers.measurement import Measurement
from bentpipe.segments import parts


def is_recording(folder: Path) -> bool:
    """Return whether a folder is a recording of `bentpipe dish record`."""
    return any(parts(folder / name, LAYOUT) for name in TABLES)


def measure_recording(folder: Path) -> Measurement:
    """Read all tables of a recording. Raises `UserError` as `scan_recording`."""
    tables = {f"dish_{name}": scan_recording(folder, name).collect() for name in TABLES}
    return Measurement({name: table for name, table in tables.items() if table.height})
