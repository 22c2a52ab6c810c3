"""Tables of a Run, built from its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.execution.emulation.result import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

    from bentpipe.runs.rows import Row


def tables_of(rows: Iterable[Row]) -> dict[str, list[dict[str, object]]]:
    """Return the rows of each table of one Run, in the order of the table."""
    tables: dict[str, list[dict[str, object]]] = {name: [] for name in TABLES.values()}
    items: dict[tuple[int, int], dict[str, object]] = {}
    for row in rows:
        if row.type in TABLES:
            values = row.model_dump(exclude={"run", "type"})
            if row.type == "application":
                items[row.flow, row.id] = values
            else:
                tables[TABLES[row.type]].append(values)
    tables["applications"] = list(items.values())
    tables["events"].sort(key=lambda event: (event["t_s"], event["flow"] >= 0))
    return tables


def plain(table: pl.DataFrame, columns: Iterable[str]) -> list[dict[str, object]]:
    """Return a table's rows with these columns; NaN becomes None."""
    return [
        {name: None if row[name] != row[name] else row[name] for name in columns} for row in table.iter_rows(named=True)
    ]
