"""Read obstruction maps and pings from our recordings, measured Runs, and the files of two published tools."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bentpipe.analysis.tables import Series, only_series
from bentpipe.damage import guarded, read_parquet
from bentpipe.errors import UserError, shown
from bentpipe.files import read_bytes
from bentpipe.measurements.dish.dumps.tables import instants
from bentpipe.measurements.dish.obstruction import MAX_SIDE, RIM_DEG, SIDE
from bentpipe.measurements.dish.recording.reading import maps, rebuild_maps, scan_recording
from bentpipe.measurements.dish.recording.tables import LAYOUT, TABLES
from bentpipe.measurements.readers.column_times import NO_ZONE
from bentpipe.measurements.runs.analysis_input import distrust_reasons, load_table
from bentpipe.measurements.runs.store import read_measured
from bentpipe.measurements.serving.frames import Attitudes
from bentpipe.measurements.serving.sightings import PaintedSlots, painted, painted_from_pixels
from bentpipe.scenarios.places import parse_place
from bentpipe.scenarios.sites import Place

#: The frames by number, as terminals send them.
FRAMES = {0: "FRAME_UNKNOWN", 1: "FRAME_EARTH", 2: "FRAME_UT"}
_STATUS_QUATERNION = ["quaternion_qScalar", "quaternion_qX", "quaternion_qY", "quaternion_qZ"]
#: A pixel's row or column in place of a heading; polars adds a suffix to the second of two equal names.
_PIXEL = re.compile(r"\s*[0-9]+(?:_duplicated_[0-9]+)?\s*")
_QUATERNION = ["quaternion_scalar", "quaternion_x", "quaternion_y", "quaternion_z"]


@dataclass(frozen=True)
class Maps:
    """Painted pixels of obstruction maps, with frame, attitudes and place of the terminal.

    Attributes:
        painted: Newly painted pixels of each slot.
        frame: FRAME_EARTH, FRAME_UT or FRAME_UNKNOWN.
        attitudes: Attitudes of the terminal, if recorded.
        place: Place of the terminal, if recorded.
        warnings: Reasons not to trust the data, one line each.
    """

    painted: PaintedSlots
    frame: str
    attitudes: Attitudes | None = None
    place: Place | None = None
    warnings: Sequence[str] = ()


def read_maps(path: str | os.PathLike[str]) -> Maps:
    """Read the maps of a recording (`bentpipe dish record`), a measured Run, LEOViz or SatInView.

    LEOViz writes `obstruction_map-WHEN.parquet` (timestamp, obstruction_map, frame_type), and beside it
    `GRPC_STATUS-WHEN.csv` with the terminal's quaternions. SatInView, and LEOViz after it, write a CSV table of the
    last painted pixel in each second (timestamp, Y, X; SatInView's raw tables without a heading).

    Raises:
        UserError: The path is none of these, or has no maps.
    """
    root = Path(path)
    if not root.exists():
        raise UserError(f"{path}: no such file or folder; expected obstruction maps (docs/reference/serving.md)")
    if root.is_dir():
        files = sorted(root.glob("obstruction_map-*.parquet"))
        if len(files) == 1:
            return _leoviz(files[0])
        if files:
            raise UserError(f"{path}: holds {len(files)} files obstruction_map-*.parquet; expected one of them")
        return _run(root) if _holds_runs(root) else _recording(root)
    return _pixels(root) if root.suffix == ".csv" else _leoviz(root)


def _recording(root: Path) -> Maps:
    tables = {name: scan_recording(root, name) for name in ("maps", "samples", "events")}
    return _maps_from_tables(root, tables, maps(root), "`bentpipe dish record --map-every 1`")


def _run(root: Path) -> Maps:
    """Read the maps of a measured Run."""
    run = read_measured(root)
    stored = {name: run.checked_scan(f"dish_{name}") for name in TABLES}
    tables = {name: pl.LazyFrame(schema=dict(TABLES[name])) if of is None else of for name, of in stored.items()}
    # A row of a map has the changes since the row written before it, whatever the clock.
    whole = {
        name: table if name in LAYOUT.as_written else table.sort("t_unix_ns", maintain_order=True)
        for name, table in tables.items()
    }
    expected = "a Run that was read from obstruction maps or a recording"
    maps = _maps_from_tables(run.path, whole, rebuild_maps([whole["maps"].collect()]), expected)
    _require_clock(run.path, run.clock_known("dish_maps", "dish_samples"))
    return replace(maps, warnings=distrust_reasons(run))


def _holds_runs(root: Path) -> bool:
    return any(next(root.glob(f"{depth}run.json"), None) is not None for depth in ("", "*/", "*/*/"))


def _require_clock(path: Path, known: bool) -> None:
    if not known:
        raise UserError(
            f"{path}: its times are not those of a wall clock, which satellite positions need; expected UTC times; try "
            "reading it with its `start`"
        )


def _maps_from_tables(
    root: Path, tables: Mapping[str, pl.LazyFrame], images: Iterator[tuple[int, NDArray[np.float32]]], expected: str
) -> Maps:
    """Build the result from the tables of a terminal and its maps in sequence."""
    about = tables["maps"].select("rows", "columns", "max_theta_deg", "frame").collect()
    if about.is_empty():
        raise UserError(f"{root}: holds no obstruction maps; expected {expected}")
    frames = about["frame"].unique().drop_nulls().to_list()
    if len(frames) > 1:
        raise UserError(f"{root}: maps in {' and '.join(sorted(frames))}; expected a recording in one frame")
    samples = tables["samples"].select("t_unix_ns", *_QUATERNION).drop_nulls().collect()
    rim = about["max_theta_deg"].drop_nulls().drop_nans()
    rim_deg = float(rim[-1]) if len(rim) else RIM_DEG
    painted_slots = painted(images, rim_deg if 0 < rim_deg <= 180 else RIM_DEG)
    place = _place(tables["events"])
    return Maps(painted_slots, frames[0] if frames else "FRAME_UNKNOWN", _attitudes(samples), place)


def _place(events: pl.LazyFrame) -> Place | None:
    locations = events.filter(pl.col("kind") == "location").select("text").collect()
    for text in reversed(locations["text"].drop_nulls().to_list()):
        try:
            return parse_place(text)
        except UserError:  # the reason why the location is not available
            continue
    return None


def _leoviz(path: Path) -> Maps:
    table = _read(path, read_parquet, "a Parquet table")
    _require_columns(path, table, ["timestamp", "obstruction_map", "frame_type"])
    try:
        times, naive = instants(table["timestamp"], str(path))
        lengths = table["obstruction_map"].list.len()
        frames = table["frame_type"].cast(pl.Int64).unique().to_list()
    except pl.exceptions.PolarsError as error:
        raise _refused(path, error) from None
    side = round(float(np.sqrt(lengths[0] or 0))) if table.height else 0
    if not table.height or side * side != lengths[0] or not 3 <= side <= MAX_SIDE or lengths.n_unique() > 1:
        raise UserError(f"{path}: maps of {shown(lengths.unique().to_list()[:3])} values; expected squares of one size")
    if len(frames) > 1:
        raise UserError(f"{path}: frame_type is {shown(frames)}; expected one frame")

    def every() -> Iterator[tuple[int, NDArray[np.float32]]]:
        for t_unix_ns, row in zip(times.to_list(), table["obstruction_map"], strict=True):
            quality = row.cast(pl.Float32, strict=False).to_numpy().reshape(side, side)
            # LEOViz writes 0 for pixels not observed.
            yield t_unix_ns, np.where(quality > 0, 1.0, -1.0).astype(np.float32)

    status = path.with_name(path.name.replace("obstruction_map-", "GRPC_STATUS-")).with_suffix(".csv")
    attitudes = None
    if status.is_file():
        rows = _read(status, _read_csv, "a CSV table")
        _require_columns(status, rows, ["timestamp", *_STATUS_QUATERNION])
        try:
            known = rows.select("timestamp", pl.col(_STATUS_QUATERNION).cast(pl.Float64)).drop_nulls()
        except pl.exceptions.PolarsError as error:
            raise _refused(status, error) from None
        unix_ns, _ = instants(known["timestamp"], str(status))
        attitudes = _attitudes(known.drop("timestamp").insert_column(0, unix_ns.alias("t_unix_ns")))
    frame = FRAMES.get(frames[0], "FRAME_UNKNOWN")
    return Maps(painted(every()), frame, attitudes, warnings=(NO_ZONE,) if naive else ())


def _pixels(path: Path) -> Maps:
    names = ["timestamp", "y", "x"]
    table = _read(path, _read_csv, "a CSV table")
    # SatInView's raw tables (white_pixel_coordinates_xor_*.csv) have no heading but a time and two pixels.
    if table.width == len(names) and _PIXEL.fullmatch(table.columns[1]) and _PIXEL.fullmatch(table.columns[2]):
        table = _read(path, partial(_read_csv, names=names), "a CSV table")
    table = table.rename({name: name.lower() for name in table.columns if name.lower() in names})
    _require_columns(path, table, names)
    unix_ns, _ = instants(table["timestamp"], str(path))
    times = unix_ns.to_numpy() // 10**9 * 10**9
    try:
        row, column = (table[name].cast(pl.Int64).to_numpy() for name in ("y", "x"))
    except pl.exceptions.PolarsError as error:
        raise _refused(path, error) from None
    bad = (np.concatenate([row, column]) < 0) | (np.concatenate([row, column]) >= SIDE)
    if not len(times) or table.select("timestamp", "y", "x").null_count().sum_horizontal().sum() or bad.any():
        raise UserError(f"{path}: no rows, empty cells or a pixel outside of 0 to {SIDE - 1}; expected timestamp, Y, X")
    order = np.argsort(times, kind="stable")
    last = np.append(np.diff(times[order]) > 0, True)  # of two rows of one second the later
    keep = order[last]
    return Maps(painted_from_pixels(times[keep], row[keep], column[keep], (SIDE, SIDE)), "FRAME_UNKNOWN")


def _attitudes(rows: pl.DataFrame) -> Attitudes | None:
    """Read attitudes from rows of a time and four numbers; None if fewer than two are quaternions."""
    rows = rows.sort("t_unix_ns")
    numbers = rows.drop("t_unix_ns").to_numpy().astype(np.float64)
    length = np.linalg.norm(numbers, axis=1) if len(numbers) else np.empty(0)
    good = np.abs(length - 1.0) < 0.01
    if good.sum() < 2:
        return None
    return Attitudes(rows["t_unix_ns"].to_numpy()[good], numbers[good] / length[good, None])


def _read_csv(data: bytes, names: list[str] | None = None) -> pl.DataFrame:
    """Read a CSV table; `names` are the columns if it has no heading."""
    return pl.read_csv(io.BytesIO(data), has_header=names is None, new_columns=names)


def _read(path: Path, reader: Callable[[bytes], pl.DataFrame], expected: str) -> pl.DataFrame:
    data = read_bytes(path)
    return guarded(lambda: reader(data), lambda reason: UserError(f"{path}: does not read as {expected} ({reason})"))


def _require_columns(path: Path, table: pl.DataFrame, names: list[str]) -> None:
    missing = [name for name in names if name not in table.columns]
    if missing:
        raise UserError(
            f"{path}: no column {missing[0]!r} (columns: {shown(', '.join(table.columns))}); expected {names}"
        )


def _refused(path: Path, error: Exception) -> UserError:
    return UserError(f"{path}: {str(error).partition(chr(10))[0]}; expected numbers and times")


def read_pings(path: str | os.PathLike[str]) -> Series:
    """Read RTTs from a table with `unix_ns` and `rtt_ms`, a measured Run, a log, or a recording.

    A recording has the terminal's own pings to its PoP, one a second and smoothed, which are the least precise.

    Raises:
        UserError: The path is none of these, has several series, or no wall clock.
    """
    root = Path(path)
    if not root.is_dir() or any(root.rglob("probes.parquet")):
        table = load_table(root, "probes")
        _require_clock(root, table.clock_known)
        return only_series(table.table)
    samples = None
    if _holds_runs(root):
        run = read_measured(root)
        _require_clock(run.path, run.clock_known("dish_samples"))
        samples = run.checked_scan("dish_samples")
        if samples is None:
            raise UserError(f"{root}: holds {', '.join(run.tables)} and no pings; expected probes or dish_samples")
    latency = pl.col("pop_ping_latency_ms")
    is_answered = (pl.col("pop_ping_drop_rate") < 1) & (latency > 0) & latency.is_finite()
    return only_series(
        (scan_recording(root) if samples is None else samples).select(
            pl.col("t_unix_ns").alias("unix_ns"), pl.when(is_answered).then(latency.cast(pl.Float64)).alias("rtt_ms")
        )
    )
