"""The Profile's long table as CSV, with or without its metadata in a first line that begins with ``#``.

Polars (``comment_prefix="#"``), pandas (``comment="#"``) and DuckDB (``comment='#'``) read the table.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import polars as pl

from bentpipe._native import Profile
from bentpipe.errors import UserError, shown
from bentpipe.files import atomic_write, read_text
from bentpipe.profiles.build import Provenance, duration_to_ns
from bentpipe.profiles.convert.reading import Converted, Paths, ReadOptions, one_path
from bentpipe.profiles.convert.writing import WriteOptions, Written
from bentpipe.profiles.table import SCHEMA, profile_from_frame, profile_to_frame

_MARK = "# bentpipe-profile "


def write_csv(profile: Profile, path: Path, options: WriteOptions) -> Written:
    """Write a CSV file from which `read_csv` restores the same Profile.

    Raises:
        UserError: `path` cannot be written.
    """
    with atomic_write(path) as file:
        file.write(f"{_MARK}{profile.metadata_json()}\n".encode())
        file.write(profile_to_frame(profile).write_csv().encode())
    return Written([path])


def read_csv(paths: Paths, options: ReadOptions) -> Converted:
    """Read a Profile from a table with the columns ``t_s,hop,direction,kind,value,valid``.

    ``valid`` is optional; default: true. Without the metadata line every hop is in use all the time, in order of first
    appearance (terminal first), the Profile lasts to the last time in the table, and the queues are those of `options`.

    Raises:
        UserError: A missing column, a cell of another type, or invalid series; the message names the line if there is
            one.
    """
    path = one_path(paths, "a CSV table")
    text = read_text(path)
    first, _, rest = text.partition("\n")
    marked = first.startswith(_MARK)
    frame = _frame(str(path), rest if marked else text, 2 if marked else 1)
    notes = []
    if marked:
        metadata = first.removeprefix(_MARK)
    else:
        metadata = _metadata(str(path), frame, options)
        notes.append("no metadata line: one route over all hops, and no events")
    try:
        return Converted(profile_from_frame(frame, metadata), notes)
    except UserError as error:
        raise UserError(f"{error}", where=str(path)) from None


def _frame(path: str, text: str, header_line: int) -> pl.DataFrame:
    """Parse the table into columns of the right types."""
    try:
        # All cells are text first, so that an error can name the line of a bad cell.
        cells = pl.read_csv(io.StringIO(text), infer_schema=False, comment_prefix="#", null_values=[""])
    except pl.exceptions.PolarsError as error:
        raise UserError(f"is not a CSV table ({str(error).partition(chr(10))[0]})", where=path) from None
    if "valid" not in cells.columns:
        cells = cells.with_columns(valid=pl.lit("true"))
    missing = [name for name in SCHEMA if name not in cells.columns]
    if missing:
        raise UserError(f"has no column {missing[0]}", where=f"{path}:{header_line}", expected=", ".join(SCHEMA))
    columns = {}
    for name, kind in SCHEMA.items():
        column = cells[name].str.strip_chars()
        if kind == pl.Boolean:
            lower = column.str.to_lowercase()
            typed = pl.select(
                pl.when(lower.is_in(["true", "1"])).then(True).when(lower.is_in(["false", "0"])).then(False)
            ).to_series()
        else:
            typed = column.cast(kind, strict=False)
        if typed.null_count():
            row = int(typed.is_null().arg_max() or 0)
            expected = {pl.Float64: "a number", pl.Boolean: "true or false"}.get(kind, "a name")
            # Comment lines are not counted: our tables have them only in the first line.
            raise UserError(
                f"{name} is {shown(cells[name][row])}", where=f"{path}:{header_line + 1 + row}", expected=expected
            )
        columns[name] = typed.rename(name)
    if not cells.height:
        raise UserError("the table has no row", where=path)
    return pl.DataFrame(columns)


def _metadata(path: str, frame: pl.DataFrame, options: ReadOptions) -> str:
    names = frame["hop"].unique(maintain_order=True).to_list()
    queue = {"discipline": "drop_tail", "limit": options.limit()}
    last_s = max((time for time in frame["t_s"].to_list() if time == time), default=0.0)  # noqa: PLR0124 - NaN is refused later
    return json.dumps(
        {
            "format": 1,
            "name": options.name_for(path),
            "start_unix_ns": options.start_unix_ns or 0,
            "duration_ns": duration_to_ns(last_s, f"{path}: the last t_s"),
            "basis": "one_way",
            "provenance": Provenance("measured", f"table {options.name_for(path)}").as_json(),
            "hops": [{"name": name, "shared_id": None, "up_queue": queue, "down_queue": queue} for name in names],
            "routes": [{"at_ns": 0, "hops": list(range(len(names)))}],
            "events": [],
        }
    )
