"""Input of `bentpipe analyze`: a Parquet table, a measured Run, a folder of Runs, or a tool's log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl

from bentpipe.analysis.files import scan_file, select_series
from bentpipe.analysis.tables import KEYS, series_name
from bentpipe.errors import UserError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from bentpipe.measurements.runs.imports import Part
    from bentpipe.measurements.runs.store import MeasuredRun

TableKind = Literal["probes", "hops", "orientation", "throughput"]

_TABLE = {"probes": "probes", "hops": "hops", "orientation": "dish_samples", "throughput": "samples"}
_ANALYSES = {
    "probes": "latency, spikes, handovers, loss",
    "hops": "path",
    "dish_samples": "orientation",
    "samples": "throughput",
}
#: Table → the columns that its analyses read; all columns of tables that are not listed.
_READ = {"probes": ("unix_ns", *KEYS, "rtt_ms", "duplicate")}
_PARQUET = b"PAR1"
#: Column with the index of a Run in its folder.
_RUN = "run"


@dataclass(frozen=True)
class LoadedTable:
    """A table for an analysis, with the notes of its writer and reader.

    Attributes:
        table: In the form that the analysis reads.
        clock_known: Whether its times are wall-clock times; otherwise only their differences are meaningful.
        notes: One line per missing fact or assumption.
        warnings: Reasons not to trust it, one per line.
    """

    table: pl.LazyFrame
    clock_known: bool = True
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()


def load_table(path: str | os.PathLike[str], expected: TableKind, **series: str | None) -> LoadedTable:
    """Load the table that an analysis reads.

    Args:
        path: A Parquet file with its columns (`docs/reference/analyze.md`); a measured Run, or a folder with several,
            which are read as one; a recording of a terminal; or a file that `bentpipe read` reads, read in memory.
        expected: The table that the analysis needs.
        series: `site`, `target` or `kind`: only rows with that value; None: all.

    Raises:
        UserError: Unreadable input, no such rows, or no rows for this analysis; the message lists those that exist.
            Runs of one folder that cannot form one series: they overlap in time, or have no wall clock.
    """
    path = Path(path)
    loaded = None
    if path.is_file() and _begins_with(path, _PARQUET):
        table = scan_file(path, _READ.get(_TABLE[expected], ()))
        if expected == "probes" and "duplicate" in table.collect_schema():
            table = table.filter(~pl.col("duplicate").fill_null(value=False))
        if expected != "orientation" or "azimuth_deg" in table.collect_schema():
            loaded = LoadedTable(table)
    if loaded is None:
        loaded = _read(path, expected, series)
        loaded = replace(loaded, table=_for_analysis(loaded.table, expected))
    return replace(loaded, table=select_series(loaded.table, path, series))


def load_parts(
    parts: Sequence[Part], where: str, site: str, expected: TableKind, series: Mapping[str, str | None]
) -> LoadedTable:
    """Return the table of `load_table` from files that `read_files` read.

    `where` names them in messages; `site` is the site of probes whose file names none.
    """
    loaded = _of_parts(parts, where, site, expected)
    table = select_series(_for_analysis(loaded.table, expected), where, series)
    return replace(loaded, table=table)


def open_measured(path: str | os.PathLike[str], expected: TableKind, **series: str | None) -> pl.LazyFrame:
    """Return the table of `load_table`."""
    return load_table(path, expected, **series).table


def distrust_reasons(run: MeasuredRun) -> tuple[str, ...]:
    """Return the reasons not to trust a measured Run, one per line; empty: valid."""
    if run.record.valid:
        return ()
    return (f"the Run says it is not to be trusted: {run.record.why_invalid}",)


def _read(path: Path, expected: TableKind, series: Mapping[str, str | None]) -> LoadedTable:
    from bentpipe.measurements.dish.dumps.recordings import is_recording, measure_recording
    from bentpipe.measurements.runs.store import find_measured
    from bentpipe.measurements.runs.tables import TABLES, filled

    name = _TABLE[expected]
    clock_known, notes, warnings = True, list[str](), list[str]()
    if path.is_dir() and not is_recording(path):
        runs = find_measured(path)
        scans = [(run, table) for run in runs if (table := run.checked_scan(name, _READ.get(name, ()))) is not None]
        if name == "probes":
            _refuse_overlapping(path, scans, series)
        frames = []
        for number, (run, table) in enumerate(scans):
            # Files of two Runs may have the same name, and test numbers restart in each Run.
            frames.append(table.with_columns(pl.lit(number).alias(_RUN)))
            clock_known &= run.clock_known(name)
            notes += [note for source in run.sources_of(name) for note in source.notes]
            warnings += distrust_reasons(run)
        there = [table for table in TABLES if any(table in run.tables for run in runs)]
    elif path.is_dir():
        tables = measure_recording(path).tables
        there = list(tables)
        frames = [filled(name, tables[name]).lazy()] if name in tables else []
    else:
        from bentpipe.measurements.runs.imports import read_file
        from bentpipe.measurements.runs.store import UNKNOWN_SITE

        return _of_parts([read_file(path)], str(path), UNKNOWN_SITE, expected)
    if not frames:
        raise _without(str(path), there, name)
    # A prober writes the same notes into each of its Runs.
    return LoadedTable(pl.concat(frames), clock_known, tuple(dict.fromkeys(notes)), tuple(dict.fromkeys(warnings)))


def _of_parts(parts: Sequence[Part], where: str, site: str, expected: TableKind) -> LoadedTable:
    from bentpipe.measurements.runs.imports import assemble_tables

    name = _TABLE[expected]
    having = [part for part in parts if name in part.measurement.tables]
    if not having:
        raise _without(where, list(dict.fromkeys(each for part in parts for each in part.measurement.tables)), name)
    table = assemble_tables(having, site)[name].select(_READ.get(name, pl.all())).lazy()
    clock_known = all(part.measurement.clock != "relative" for part in having)
    return LoadedTable(table, clock_known, tuple(dict.fromkeys(note for part in having for note in part.source.notes)))


def _without(where: str, there: Sequence[str], name: str) -> UserError:
    """Return the error of an input without the table of an analysis."""
    possible = ", ".join(dict.fromkeys(_ANALYSES[table] for table in there if table in _ANALYSES))
    return UserError(f"{where}: has {', '.join(there)} and no {name}; possible analyses: {possible or 'none'}")


def _refuse_overlapping(
    path: Path, runs: Sequence[tuple[MeasuredRun, pl.LazyFrame]], series: Mapping[str, str | None]
) -> None:
    """Refuse Runs keys probes of one series overlap in time: probes would count twice, out of order."""
    if len(runs) < 2:
        return
    spans: dict[tuple[str | None, ...], list[tuple[int, int, MeasuredRun]]] = {}
    for run, table in runs:
        when = pl.col("unix_ns")
        ends = table.group_by(KEYS).agg(when.min().alias("first"), when.max().alias("last"))
        for *key, first, last in ends.collect(engine="streaming").rows():
            if all(expected is None or expected == of for expected, of in zip(map(series.get, KEYS), key, strict=True)):
                spans.setdefault(tuple(key), []).append((first, last, run))
    for (site, target, kind), runs_of in sorted(spans.items(), key=str):
        runs_of.sort(key=lambda span: span[:2])
        for (_, last, one), (first, _, other) in pairwise(runs_of):
            timeless = next((run for run in (one, other) if not run.clock_known("probes")), None)
            if timeless is None and first > last:
                continue
            why = "overlap in time" if timeless is None else f"cannot be put in order: {timeless.path} has no clock"
            raise UserError(
                f"{path}: probes {series_name(site, target, kind)} of two Runs, {one.path} and {other.path}, {why}; "
                "try one of them (files without timestamps: `bentpipe read` them together)"
            )


def _for_analysis(table: pl.LazyFrame, expected: TableKind) -> pl.LazyFrame:
    """Return a table of a measured Run in the form that its analysis reads."""
    if expected == "probes":
        return table.filter(~pl.col("duplicate"))
    if expected == "orientation":
        return table.select(
            pl.col("boresight_azimuth_deg").cast(pl.Float64).alias("azimuth_deg"),
            pl.col("boresight_elevation_deg").cast(pl.Float64).alias("elevation_deg"),
            # With all pings lost there is no latency.
            pl.when(pl.col("pop_ping_drop_rate").fill_null(0) < 1)
            .then(pl.col("pop_ping_latency_ms"))
            .cast(pl.Float64)
            .alias("latency_ms"),
        )
    if expected == "throughput":
        rate_bps = pl.coalesce("goodput_bps", "sent_bps")
        keys = [_RUN, "source", "test", "direction"]
        measured_s = pl.col("duration_s").filter(pl.col("rate_bps").is_not_null()).sum()
        if _RUN not in table.collect_schema():
            table = table.with_columns(pl.lit(0).alias(_RUN))
        return (
            table.filter(~pl.col("omitted").fill_null(value=False))
            .with_columns(rate_bps.alias("rate_bps"), pl.col("duration_s").fill_null(1.0))
            # Mean over the time of a test, and sum over its flows, which share the path.
            .group_by(*keys, "flow", maintain_order=True)
            .agg(
                pl.col("unix_ns").min(),
                # A test without any rate failed: null (0 / 0), not 0 bit/s.
                ((pl.col("rate_bps") * pl.col("duration_s")).sum() / measured_s).fill_nan(None).alias("rate_bps"),
            )
            .group_by(*keys, maintain_order=True)
            .agg(
                pl.col("unix_ns").min(),
                pl.when(pl.col("rate_bps").count() > 0).then(pl.col("rate_bps").sum()).alias("throughput_bps"),
            )
            .sort("unix_ns")
        )
    return table


def _begins_with(path: Path, mark: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(mark)) == mark
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from error
