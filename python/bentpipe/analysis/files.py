"""Tables on disk, read when they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from bentpipe.analysis.tables import KEYS, with_names
from bentpipe.damage import gone_through, scan_parquet
from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def scan_file(path: Path, columns: Sequence[str] = ()) -> pl.LazyFrame:
    """A Parquet file as a lazy table; `columns`: those that will be read, empty: all.

    Raises:
        UserError: It is no readable Parquet file.
    """
    if not path.exists():
        raise UserError(f"{path}: no such file; expected a measurement (docs/reference/analyze.md)")
    return gone_through(
        lambda: scan_parquet(path, held=True),
        lambda reason: UserError(f"{path}: does not read as Parquet ({reason}); expected a Parquet table"),
        columns,
    )


def chosen(table: pl.LazyFrame, path: Path, expected: Mapping[str, str | None]) -> pl.LazyFrame:
    """Rows of one site, target or kind (`KEYS`) only, if asked for; `path` names the table in messages.

    Raises:
        UserError: There are no such rows.
    """
    table = with_names(table)
    columns = table.collect_schema()
    for key in KEYS:
        if (value := expected.get(key)) is None:
            continue
        if key not in columns:
            raise UserError(f"{path}: has no column {key!r}; --{key} cannot choose")
        table = table.filter(pl.col(key) == value)
        if table.select(pl.len()).collect().item() == 0:
            raise UserError(f"{path}: no rows with {key} {value!r}")
    return table
