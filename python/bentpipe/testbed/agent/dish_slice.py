"""A slice of a recording as tables of a measured Run: what the terminal saw while a run ran."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.damage import guarded, read_parquet
from bentpipe.errors import UserError
from bentpipe.measurements.dish.recording.reading import rebuild_maps
from bentpipe.measurements.dish.recording.tables import LAYOUT, TABLES
from bentpipe.segments import parts

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.testbed.schemas.policy import Sharing

NANOS_PER_MS = 10**6

PRIVATE_COLUMNS = ("device_id", "raw")
"""Columns that say which terminal it is, or may say more than the host shares: null in a slice."""

PRIVATE_EVENTS = ("location",)
"""Events that tell the exact place: not in a slice."""

TRIES, AGAIN_S = 10, 0.1
"""Files are merged while they are read: how often they are listed, and the time between two tries [s]."""


def slice_recording(folder: Path, from_at_ms: int, to_at_ms: int, share: Sharing) -> dict[str, pl.DataFrame]:
    """Return the tables ``dish_samples``, ``dish_events`` and ``dish_maps`` of a time, without those that are empty.

    The recorder writes within a second. Outages are there once they have ended and the terminal's history was read: up
    to five minutes later. The first map is whole: the one that was current at the start, with its own time.

    Args:
        folder: The recording.
        from_at_ms: Start of the slice [ms since 1970].
        to_at_ms: Its end, included [ms since 1970].
        share: What the host shares.

    Raises:
        UserError: Files of that time do not read.
    """
    if not share.telemetry or to_at_ms < from_at_ms:
        return {}
    begin, end = from_at_ms * NANOS_PER_MS, to_at_ms * NANOS_PER_MS
    is_inside = pl.col("t_unix_ns").is_between(begin, end)
    samples = _rows(folder, "samples", begin, end).filter(is_inside).sort("t_unix_ns", maintain_order=True)
    hidden = [pl.lit(None, dtype=samples.schema[name]).alias(name) for name in PRIVATE_COLUMNS]
    events = _rows(folder, "events", begin, end).sort("t_unix_ns", maintain_order=True)
    began_before = pl.col("start_unix_ns").is_not_null() & (pl.col("start_unix_ns") <= end)
    events = events.filter(is_inside | ((pl.col("kind") == "outage") & began_before & (pl.col("t_unix_ns") >= begin)))
    tables = {
        "dish_samples": samples.with_columns(hidden),
        "dish_events": events.filter(~pl.col("kind").is_in(PRIVATE_EVENTS)),
    }
    if share.obstruction_maps:
        tables["dish_maps"] = _maps(_rows(folder, "maps", begin, end), begin, end)
    return {name: table for name, table in tables.items() if table.height}


def _rows(folder: Path, table: str, begin: int, end: int) -> pl.DataFrame:
    """Read the files of a table that may have rows of that time."""
    first = datetime.fromtimestamp(begin / 1e9, UTC) - timedelta(hours=1)
    # An outage is written up to five minutes after its end.
    last = datetime.fromtimestamp(end / 1e9, UTC) + timedelta(hours=1)
    hours = f"{first:%Y%m%dT%H}", f"{last:%Y%m%dT%H}"
    for attempt in range(TRIES):
        if attempt:
            time.sleep(AGAIN_S)
        listed = parts(folder / table, LAYOUT)
        named = [path for path in listed if hours[0] <= path.name[: len(hours[0])] <= hours[1]]
        if not named:
            return pl.DataFrame(schema=dict(TABLES[table]))
        try:
            rows = pl.concat([_read(path) for path in named])
        except FileNotFoundError:  # merged or removed in between
            continue
        # One that was merged in between is read twice: by itself, and in its hour's file.
        if set(named) <= set(parts(folder / table, LAYOUT)):
            return rows
    raise UserError("files vanish while they are read", where=str(folder / table))


def _read(path: Path) -> pl.DataFrame:
    """Read a file by one opening. Polars opens a path twice, and the open segment is replaced once a second."""
    data = path.read_bytes()
    return guarded(
        lambda: read_parquet(data),
        lambda reason: UserError(f"does not read ({reason})", where=str(path), hint="move it away"),
    )


def _maps(rows: pl.DataFrame, begin: int, end: int) -> pl.DataFrame:
    """Return the maps of that time; the first row has all pixels."""
    inside = rows.filter(pl.col("t_unix_ns").is_between(begin, end))
    before = rows.filter(pl.col("t_unix_ns") < begin)
    newest = None
    for t_unix_ns, quality in rebuild_maps([before]):
        newest = (t_unix_ns, quality)
    if newest is None:
        is_whole = inside["whole"].to_list()
        return inside[is_whole.index(True) :] if True in is_whole else inside.clear()
    t_unix_ns, quality = newest
    about = before.filter(pl.col("t_unix_ns") == t_unix_ns).tail(1)
    pixels = [pixel for pixel, value in enumerate(quality.ravel().tolist()) if value >= 0]
    values = [float(quality.ravel()[pixel]) for pixel in pixels]
    whole = about.with_columns(
        pl.lit(value=True).alias("whole"),
        pl.Series("pixel", [pixels], dtype=TABLES["maps"]["pixel"]),
        pl.Series("quality", [values], dtype=TABLES["maps"]["quality"]),
    )
    return pl.concat([whole, inside])
