"""Read a recording: each table as one lazy frame, and the obstruction maps in sequence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bentpipe.errors import UserError, shown
from bentpipe.measurements.dish.recording.tables import LAYOUT, TABLES
from bentpipe.segments import about, parts


def scan_recording(directory: str | PathLike[str], table: str = "samples") -> pl.LazyFrame:
    """Return a table of a recording, sorted by time (``maps``: in the order written); works while recording.

    Args:
        directory: Folder that `bentpipe dish record` wrote.
        table: ``samples``, ``events`` or ``maps``.

    Raises:
        UserError: No recording, an unknown table, a newer format, or a file that does not read.
    """
    if table not in TABLES:
        raise UserError(f"no table {shown(table)}; expected {', '.join(TABLES)}")
    root = Path(directory)
    segments = parts(root / table, LAYOUT)
    if not segments and not any(parts(root / name, LAYOUT) for name in TABLES):
        raise UserError(f"{directory}: holds no recording; expected the folder given to `bentpipe dish record`")
    for path in segments:
        _check(path)
    if not segments:
        return pl.LazyFrame(schema=dict(TABLES[table]))
    rows = pl.scan_parquet(segments, glob=False)
    return rows if table in LAYOUT.as_written else rows.sort("t_unix_ns", maintain_order=True)


def maps(directory: str | PathLike[str]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield time [ns since 1970] and pixels, shape (rows, columns), of each recorded obstruction map.

    Raises:
        UserError: As `scan_recording`.
    """

    def segments() -> Iterator[pl.DataFrame]:
        for path in parts(Path(directory) / "maps", LAYOUT):
            _check(path)
            yield pl.read_parquet(path, glob=False)

    return rebuild_maps(segments())


def rebuild_maps(tables: Iterable[pl.DataFrame]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Rebuild the maps from successive tables ``maps``, in which a row has all pixels or only the changed ones.

    Changes whose base map is missing, because its file was deleted or set aside, are ignored.
    """
    quality: NDArray[np.float32] | None = None
    for table in tables:
        for row in table.iter_rows(named=True):
            if row["whole"]:
                quality = np.full((row["rows"], row["columns"]), -1.0, dtype=np.float32)
            if quality is None or quality.shape != (row["rows"], row["columns"]):
                quality = None
                continue
            quality.ravel()[np.asarray(row["pixel"], dtype=np.int64)] = row["quality"]
            yield row["t_unix_ns"], quality.copy()


def _check(path: Path) -> None:
    metadata = about(path, LAYOUT)
    if metadata is None:
        raise UserError(f"{path}: does not read as part of a recording; move it away")
    if metadata["format"] > LAYOUT.format:
        raise UserError(
            f"{path}: has format {metadata['format']}, this bentpipe reads up to {LAYOUT.format}: install a newer one"
        )
