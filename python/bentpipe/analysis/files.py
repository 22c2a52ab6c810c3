"""Lazy reading of tables on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from bentpipe.analysis.tables import KEYS, with_names
from bentpipe.damage import decoded_scan, scan_parquet
from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def scan_file(path: Path, columns: Sequence[str] = ()) -> pl.LazyFrame:
    """Open a Parquet file as a lazy table; `columns`: those that will be read, empty: all.

    Raises:
        UserError: It is not a readable Parquet file.
    """
    if not path.exists():
        raise UserError(f"{path}: no such file; expected a measurement (docs/reference/analyze.md)")
    return decoded_scan(
        lambda: scan_parquet(path, held=True),
        lambda reason: UserError(f"{path}: does not read as Parquet ({reason}); expected a Parquet table"),
        columns,
    )


def select_series(table: pl.LazyFrame, path: str | Path, requested: Mapping[str, str | None]) -> pl.LazyFrame:
    """Select the rows of a requested site, target or kind (`KEYS`); `path` names the table in messages.

    Raises:
        UserError: There are no such rows.
    """
    table = with_names(table)
    columns = table.collect_schema()
    for key in KEYS:
        if (value := requested.get(key)) is None:
            continue
        if key not in columns:
            raise UserError(f"{path}: has no column {key!r}; --{key} is not possible")
        table = table.filter(pl.col(key) == value)
        if table.select(pl.len()).collect().item() == 0:
            raise UserError(f"{path}: no rows with {key} {value!r}")
    return table
