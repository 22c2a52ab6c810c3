"""Reading a recording: each table as one lazy frame, and the obstruction maps one after the other."""

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
    """A table of a recording, in order of time (``maps``: as they were written); also of one that is still written.

    Args:
        directory: As given to `bentpipe dish record`.
        table: ``samples``, ``events`` or ``maps``.

    Raises:
        UserError: No recording, no such table, a newer layout or a file that does not read.
    """
    if table not in TABLES:
        raise UserError(f"no table {shown(table)}; wanted {', '.join(TABLES)}")
    root = Path(directory)
    found = parts(root / table, LAYOUT)
    if not found and not any(parts(root / name, LAYOUT) for name in TABLES):
        raise UserError(f"{directory}: holds no recording; wanted the folder given to `bentpipe dish record`")
    for path in found:
        _check(path)
    if not found:
        return pl.LazyFrame(schema=dict(TABLES[table]))
    rows = pl.scan_parquet(found, glob=False)
    return rows if table in LAYOUT.as_written else rows.sort("t_unix_ns", maintain_order=True)


def maps(directory: str | PathLike[str]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """When each obstruction map came [ns since 1970] and what it shows, shape (rows, columns); as recorded.

    Raises:
        UserError: As `scan_recording`.
    """

    def segments() -> Iterator[pl.DataFrame]:
        for path in parts(Path(directory) / "maps", LAYOUT):
            _check(path)
            yield pl.read_parquet(path, glob=False)

    return drawn(segments())


def drawn(tables: Iterable[pl.DataFrame]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The maps of tables ``maps`` that follow each other, as `maps` gives them: a row has what changed, or all.

    Changes of a map that is not there, since its file was deleted or set aside, are passed over.
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
    said = about(path, LAYOUT)
    if said is None:
        raise UserError(f"{path}: does not read as part of a recording; move it away")
    if said["format"] > LAYOUT.format:
        raise UserError(
            f"{path}: has format {said['format']}, this bentpipe reads up to {LAYOUT.format}: install a newer one"
        )
