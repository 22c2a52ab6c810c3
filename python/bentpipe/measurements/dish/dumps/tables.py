"""Read tables of a terminal by other tools: starlink-grpc-tools' CSV, SQLite and Parquet, LEOViz's CSV and maps.

Columns are matched by name, without the prefix of a group (``dish_status.``) and in snake case. `_ALIASES` has those
that starlink-grpc-tools names differently (see its ``starlink_grpc.py``).
"""

from __future__ import annotations

import contextlib
import io
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from bentpipe.damage import MEASURED_BOUND, guarded, read_parquet
from bentpipe.errors import UserError, shown
from bentpipe.measurements.dish.recording.tables import MAPS, SAMPLES, STATUS, TRACK
from bentpipe.measurements.readers.blocks import without_cut
from bentpipe.measurements.readers.checked import ALTITUDE_RANGE_M
from bentpipe.measurements.readers.column_times import NO_ZONE, parse_instants
from bentpipe.measurements.readers.columns import MOST_SEQ, OF_REPLIES, probes_of, with_send_times
from bentpipe.measurements.readers.measurement import PROBES, Measurement, ReadHints

_SQLITE = b"SQLite format 3\x00"
_PARQUET = b"PAR1"
_TIMES = ("t_unix_ns", "time", "timestamp", "time_utc", "datetimestamp_utc", "datetime")
_ALIASES = {
    "id": "device_id",
    "uptime": "uptime_s",
    "seconds_to_first_nonempty_slot": "seconds_to_first_nonempty_slot_s",
    "direction_azimuth": "boresight_azimuth_deg",
    "direction_elevation": "boresight_elevation_deg",
    "valid_s": "obstruction_valid_s",
    "gps_sats": "gps_sats",
    "attitude_estimation_state": "attitude_state",
    "quaternion_q_scalar": "quaternion_scalar",
    "quaternion_q_x": "quaternion_x",
    "quaternion_q_y": "quaternion_y",
    "quaternion_q_z": "quaternion_z",
    "power_in": "power_in_w",
    "latitude": "latitude_deg",
    "lat": "latitude_deg",
    "longitude": "longitude_deg",
    "lon": "longitude_deg",
    "altitude": "altitude_m",
    "alt": "altitude_m",
}
#: Lowest and highest values of a track: latitude, longitude and altitude in this order.
RANGES = {"latitude_deg": (-90.0, 90.0), "longitude_deg": (-180.0, 180.0), "altitude_m": ALTITUDE_RANGE_M}
#: A column that identifies a table of a terminal.
_MARKER = re.compile(rb"pop_?ping_?(?:latency|drop)", re.IGNORECASE)
#: Number of maps processed at once; chosen here: some 15 MB of pixels.
_BATCH = 256
_OWN = {"t_unix_ns", "counter", "power_in_w", *STATUS, *TRACK} - {"raw", "unknown"}


def is_dish_csv(head: bytes) -> bool:
    """Return whether a text with this beginning is a table of a terminal with a heading."""
    first = head.lstrip(b"\xef\xbb\xbf").split(b"\n", 1)[0]
    return bool(_MARKER.search(first)) and b"," in first and not first.lstrip().startswith((b"{", b"["))


def is_sqlite(head: bytes) -> bool:
    """Return whether a file with this beginning is an SQLite database."""
    return head.startswith(_SQLITE)


def is_parquet(head: bytes) -> bool:
    """Return whether a file with this beginning is Parquet."""
    return head.startswith(_PARQUET)


def measure_csv(data: bytes, where: str, hints: ReadHints) -> Measurement:
    """Read the rows of a CSV table as `dish_samples`.

    Raises:
        UserError: Not such a table, no time, or a cell of another type; the message names the row.
    """
    data, cut = without_cut(data)
    cells = guarded(
        lambda: pl.read_csv(io.BytesIO(data), infer_schema=False, truncate_ragged_lines=False),
        lambda reason: UserError(f"{where}: is not a CSV table ({reason})"),
    )
    measurement = _samples(cells, where)
    return replace(measurement, notes=(*measurement.notes, *filter(None, [cut])))


def measure_sqlite(data: bytes, where: str, hints: ReadHints) -> Measurement:
    """Read the tables ``status`` and ``history`` of an SQLite database as `dish_samples`.

    Raises:
        UserError: The database is damaged, or has neither.
    """
    import sqlite3

    notes = []
    if data[18:20] == b"\x02\x02":  # WAL mode, by the version numbers of the file format (sqlite.org/fileformat2.html)
        name, beside = Path(where).name, Path(f"{where}-wal")
        if beside.is_file() and beside.stat().st_size:
            raise UserError(
                f"{where}: its newest rows are in {beside.name} (WAL mode); make a copy that has all of them "
                f"(sqlite3 {name} \"VACUUM INTO 'copy.sqlite'\") and read that"
            )
        notes.append(f"a database in WAL mode: rows that were in a file {name}-wal when it was copied are not in it")
        data = data[:18] + b"\x01\x01" + data[20:]
    parts = []
    try:
        with contextlib.closing(sqlite3.connect(":memory:")) as base:
            base.deserialize(data)
            names = {row[0] for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            for name in ("status", "history"):
                if name in names:
                    cursor = base.execute(f'SELECT * FROM "{name}"')
                    columns = [entry[0] for entry in cursor.description]
                    rows = [[None if value is None else _text(value) for value in row] for row in cursor]
                    if rows:
                        schema = dict.fromkeys(columns, pl.String)
                        part = _samples(pl.DataFrame(rows, schema=schema, orient="row"), f"{where}: table {name}")
                        source = pl.lit("status" if name == "status" else "history").alias("source")
                        parts.append(part.tables["dish_samples"].with_columns(source))
    except (sqlite3.Error, OverflowError, ValueError, MemoryError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{where}: does not read as an SQLite database ({str(error).lower()})") from None
    if not parts:
        raise UserError(f"{where}: has no table `status` or `history` with a row, as dish_grpc_sqlite.py writes")
    return Measurement(
        {"dish_samples": pl.concat(parts, how="diagonal_relaxed").sort("t_unix_ns", maintain_order=True)},
        notes=tuple(notes),
    )


def measure_parquet(data: bytes, where: str, hints: ReadHints) -> Measurement:
    """Read telemetry as `dish_samples`, maps as `dish_maps`, and pings (`unix_ns`, `rtt_ms`) as `probes`.

    Raises:
        UserError: The file does not read, or is none of these.
    """
    # The maps' rows are lists: they alone may have more values than rows.
    bound = MEASURED_BOUND if b"obstruction_map" in data else replace(MEASURED_BOUND, values=MEASURED_BOUND.rows)
    table = guarded(
        lambda: read_parquet(data, bound),
        lambda reason: UserError(f"{where}: does not read as Parquet ({reason})"),
    )
    if {"unix_ns", "rtt_ms"} <= set(table.columns):
        return _pings(table, where, hints)
    if "obstruction_map" in table.columns:
        return _maps(table, where)
    if any(_MARKER.search(name.encode()) for name in table.columns):
        return _samples(table, where)
    raise UserError(f"{where}: is Parquet without pings (unix_ns, rtt_ms), telemetry or maps of a terminal")


def _pings(table: pl.DataFrame, where: str, hints: ReadHints) -> Measurement:
    notes = []
    if table.schema["unix_ns"].is_temporal():
        times, naive = instants(table["unix_ns"], where)
        table = table.with_columns(times.alias("unix_ns"))
        notes += [NO_ZONE] if naive else []
    try:
        rows = table.select(name for name in PROBES if name in table.columns).cast(
            {name: kind for name, kind in PROBES.items() if name in table.columns}
        )
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{where}: {str(error).partition(chr(10))[0]}") from None
    if rows["unix_ns"].null_count():
        raise UserError(f"{where}: {rows['unix_ns'].null_count()} rows have no unix_ns; expected a time for each probe")
    rtt_ms = rows["rtt_ms"].fill_nan(None)
    if not (rtt_ms.drop_nulls() >= 0).all():
        raise UserError(f"{where}: rtt_ms goes down to {rtt_ms.min()!r}; expected 0 or more, or null for a lost probe")
    rows = rows.with_columns(rtt_ms)
    flags = [name for name in ("duplicate", "out_of_order") if name in rows.columns]
    if flags:  # the writer has checked them
        missing = {"kind": pl.lit("icmp"), "duplicate": pl.lit(value=False), "out_of_order": pl.lit(value=False)}
        more = [value.alias(name) for name, value in missing.items() if name not in rows.columns]
        notes += [OF_REPLIES] if hints.times == "reply" else []
        return Measurement({"probes": with_send_times(rows.with_columns(more), hints)}, notes=tuple(notes))
    if "seq" in rows.columns and rows["seq"].null_count() == rows.height:
        rows = rows.drop("seq")
    if "seq" in rows.columns and not rows["seq"].is_between(0, MOST_SEQ).fill_null(value=False).all():
        raise UserError(
            f"{where}: seq is not a number from 0 to {MOST_SEQ} in every row; expected that, or no such column"
        )
    # The order of rows has no meaning, unlike the order of lines that a prober prints.
    rows, jumps = probes_of(rows.sort("unix_ns", maintain_order=True), hints, notes)
    return Measurement({"probes": rows}, clock_jumps=jumps, notes=tuple(notes))


def _samples(table: pl.DataFrame, where: str) -> Measurement:
    """Return the columns that a recording has too, with its types."""
    chosen: dict[str, str] = {}
    for name in table.columns:
        plain = _plain(name)
        ours = _ALIASES.get(plain, plain)
        if ours in _OWN and ours not in chosen:
            chosen[ours] = name
    time = next((name for known in _TIMES for name in table.columns if _plain(name) == known), None)
    if time is None:
        raise UserError(f"{where}: no time column (columns: {_listed(table.columns)}); expected timestamp")
    notes = []
    times, naive = instants(table[time], where)
    if naive:
        notes.append(NO_ZONE)
    columns = {"t_unix_ns": times}
    for ours, theirs in chosen.items():
        if ours != "t_unix_ns" and not isinstance(table.schema[theirs], pl.List | pl.Struct):
            columns[ours] = _typed(table[theirs], {**SAMPLES, **TRACK}[ours], ours, where)
            if ours in RANGES:
                _check_range(columns[ours], ours, where)
    samples = pl.DataFrame(columns).with_columns(pl.lit("status").alias("source"))
    if not {"pop_ping_latency_ms", "pop_ping_drop_rate", "downlink_throughput_bps"} & set(samples.columns):
        raise UserError(f"{where}: no column of a terminal's telemetry; expected such as pop_ping_latency_ms")
    ignored = [name for name in table.columns if name not in (*chosen.values(), time)]
    if ignored:
        notes.append(f"columns ignored: {_listed(ignored)}")
    return Measurement({"dish_samples": samples.sort("t_unix_ns", maintain_order=True)}, notes=tuple(notes))


def _maps(table: pl.DataFrame, where: str) -> Measurement:
    """Read whole maps of LEOViz, one a row: `timestamp`, `obstruction_map` (row by row), `frame_type`.

    LEOViz stores 0 both for -1 (not observed) and for 0 (obstructed), so only pixels above 0 are known.
    """
    if "timestamp" not in table.columns or not isinstance(table.schema["obstruction_map"], pl.List):
        raise UserError(f"{where}: unknown columns; expected timestamp, and obstruction_map as a list")
    times, naive = instants(table["timestamp"], where)
    quality = table["obstruction_map"]
    sizes = quality.list.len().unique().to_list()
    side = math.isqrt(sizes[0]) if len(sizes) == 1 and sizes[0] else 0
    if side == 0 or side * side != sizes[0]:
        raise UserError(f"{where}: its maps have {sizes[:3]} pixels; expected square ones of one size")
    frame = table["frame_type"].cast(pl.Int64, strict=False) if "frame_type" in table.columns else None
    names = {0: "FRAME_UNKNOWN", 1: "FRAME_EARTH", 2: "FRAME_UT"}
    try:
        observed = pl.concat(_observed(quality[at : at + _BATCH], at, side) for at in range(0, quality.len(), _BATCH))
    except pl.exceptions.PolarsError as error:
        raise UserError(f"{where}: obstruction_map: {str(error).partition(chr(10))[0]}") from None
    rows = (
        pl.DataFrame(
            {"t_unix_ns": times, "frame": frame.replace_strict(names, default=None) if frame is not None else None}
        )
        .with_row_index("map")
        .join(observed, on="map", how="left", maintain_order="left")
        .with_columns(
            pl.lit(side, pl.UInt32).alias("rows"),
            pl.lit(side, pl.UInt32).alias("columns"),
            pl.lit(value=True).alias("whole"),
            # A map without known pixels.
            pl.col("pixel").fill_null([]),
            pl.col("quality").fill_null([]),
        )
    )
    note = "pixels of 0 are left out: these maps do not distinguish obstructed from not observed"
    maps = rows.select(name for name in MAPS if name in rows.columns).sort("t_unix_ns")
    return Measurement({"dish_maps": maps}, notes=(note, NO_ZONE) if naive else (note,))


def _observed(maps: pl.Series, first: int, side: int) -> pl.DataFrame:
    """Return the pixels above 0 of maps numbered from `first`: `map`, and lists `pixel` and `quality`."""
    quality = maps.explode().cast(pl.Float32).to_numpy().reshape(-1, side * side)
    at, pixel = np.nonzero(quality > 0)
    columns = {"map": (at + first).astype(np.uint32), "pixel": pixel.astype(np.uint32), "quality": quality[at, pixel]}
    return pl.DataFrame(columns).group_by("map", maintain_order=True).agg("pixel", "quality")


def instants(column: pl.Series, where: str) -> tuple[pl.Series, bool]:
    """Convert a column of times to nanoseconds since 1970, and return whether any time lacks a zone.

    Times are seconds since 1970 (`t_unix_ns`: nanoseconds), ISO-8601, or Parquet timestamps.

    Raises:
        UserError: The column has another type, or a row has no time; the message names it.
    """
    naive = False
    if column.name == "t_unix_ns" and column.dtype == pl.Int64:
        times = column
    elif isinstance(column.dtype, pl.Datetime):
        naive = column.dtype.time_zone is None
        known = column.dt.epoch("s").is_between(0, 2**33).fill_null(value=False)  # range of 64-bit nanoseconds
        times = column.dt.epoch("ns").set(~known, None)
    elif column.dtype.is_numeric() or (column.dtype == pl.String and column.str.contains(r"^[0-9]+(\.[0-9]*)?$").all()):
        seconds = column.cast(pl.Float64, strict=False)
        seconds = seconds.set(~seconds.is_between(0, 4e9).fill_null(value=False), None)
        times = (seconds * 1e9).round().cast(pl.Int64)
    elif column.dtype == pl.String:
        times, naive = parse_instants(column)
    else:
        raise UserError(
            f"{where}: {column.name} is of type {column.dtype}; expected a time since 1970, ISO-8601 or Datetime"
        )
    if times.null_count():
        row = int(times.is_null().arg_max() or 0)
        raise UserError(
            f"{where}: row {row + 1}: {column.name} is {column[row]!r:.60}; expected a time since 1970, or ISO-8601"
        )
    return times, naive


def _typed(column: pl.Series, kind: object, name: str, where: str) -> pl.Series:
    """Convert a column to its type in a recording; empty cells are null."""
    text = column.cast(pl.String, strict=False).str.strip_chars()
    empty = text.is_null() | text.str.to_lowercase().is_in(["", "none", "null", "nan"])
    if kind == pl.Boolean:
        lower = text.str.to_lowercase()
        typed = pl.select(
            pl.when(lower.is_in(["true", "1"])).then(True).when(lower.is_in(["false", "0"])).then(False)
        ).to_series()
    elif kind == pl.String:
        typed = text.str.slice(0, 200)
    else:
        typed = text.cast(pl.Float64, strict=False)
        typed = typed.set((typed.is_infinite() | (typed.abs() > 1e18)).fill_null(value=False), None)
        typed = typed.cast(kind, strict=False)  # type: ignore[arg-type]
    bad = typed.is_null() & ~empty
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise UserError(f"{where}: row {row + 1}: {name} is {text[row]!r:.60}; expected a value of its type")
    return typed.set(empty, None) if kind == pl.String else typed


def _check_range(column: pl.Series, name: str, where: str) -> None:
    low, high = RANGES[name]
    bad = ~column.is_between(low, high).fill_null(value=True)
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise UserError(f"{where}: row {row + 1}: {name} is {column[row]:g}; expected {low:g} to {high:g}")


def _plain(name: str) -> str:
    """Return `name` without its group and in snake case."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.rpartition(".")[2].lstrip("@"))
    return re.sub(r"[^0-9a-z]+", "_", text.lower()).strip("_")


def _listed(names: list[str]) -> str:
    """Format up to eight names for a message, each shortened."""
    return ", ".join(shown(name[:40])[1:-1] for name in names[:8]) + (", …" if names[8:] else "")


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
