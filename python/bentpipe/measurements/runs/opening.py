"""What `bentpipe analyze` is given: a Parquet table, a measured Run, a folder of them, or a log as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl

from bentpipe.analysis.files import chosen, scan_file
from bentpipe.analysis.tables import KEYS, series_name
from bentpipe.errors import UserError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from bentpipe.measurements.runs.store import MeasuredRun

Wanted = Literal["probes", "hops", "orientation", "throughput"]

_TABLE = {"probes": "probes", "hops": "hops", "orientation": "dish_samples", "throughput": "samples"}
_ANALYSES = {
    "probes": "latency, spikes, handovers, loss",
    "hops": "path",
    "dish_samples": "orientation",
    "samples": "throughput",
}
#: The columns of a table in memory that its analyses read; of one that is not named all.
_READ = {"probes": ("unix_ns", *KEYS, "rtt_ms", "duplicate")}
_PARQUET = b"PAR1"
#: The number of a Run among those of a folder.
_RUN = "run"


@dataclass(frozen=True)
class Opened:
    """A table, and what those who wrote or read it said of it.

    Attributes:
        table: As its analysis reads it.
        clock_known: Whether its times are those of a wall clock; else only their differences mean anything.
        notes: What is missing in it or was assumed, a line each.
        warnings: Why it is not to be trusted, a line each.
    """

    table: pl.LazyFrame
    clock_known: bool = True
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()


def opened(path: str | os.PathLike[str], wanted: Wanted, **series: str | None) -> Opened:
    """The table that an analysis reads, and what was said of it.

    Args:
        path: A Parquet file with its columns (`docs/reference/analyze.md`); a measured Run, or a folder above some,
            which are read as one; a recording of a terminal; or a file that `bentpipe read` reads, read in memory.
        wanted: By analysis.
        series: `site`, `target` or `kind`: only rows of it; None: all.

    Raises:
        UserError: Nothing that can be read, no such rows, or none for this analysis; the message says which there are.
            Runs of one folder that cannot be one series: they say of the same time, or have no wall clock.
    """
    path = Path(path)
    found = None
    if path.is_file() and _begins_with(path, _PARQUET):
        table = scan_file(path, _READ.get(_TABLE[wanted], ()))
        if wanted == "probes" and "duplicate" in table.collect_schema():
            table = table.filter(~pl.col("duplicate").fill_null(value=False))
        if wanted != "orientation" or "azimuth_deg" in table.collect_schema():
            found = Opened(table)
    if found is None:
        found = _read(path, wanted, series)
        found = replace(found, table=_prepared(found.table, wanted))
    return replace(found, table=chosen(found.table, path, series))


def open_measured(path: str | os.PathLike[str], wanted: Wanted, **series: str | None) -> pl.LazyFrame:
    """The table of `opened`."""
    return opened(path, wanted, **series).table


def trusted(run: MeasuredRun) -> tuple[str, ...]:
    """Why a measured Run is not to be trusted, in one line; empty: it is."""
    if run.record["valid"]:
        return ()
    return (f"the Run says it is not to be trusted: {run.record.get('why_invalid')}",)


def _read(path: Path, wanted: Wanted, series: Mapping[str, str | None]) -> Opened:
    from bentpipe.measurements.dish.dumps.recordings import is_recording, measure_recording
    from bentpipe.measurements.runs.store import find_measured
    from bentpipe.measurements.runs.tables import TABLES, filled

    name = _TABLE[wanted]
    clock_known, notes, warnings = True, list[str](), list[str]()
    if path.is_dir() and not is_recording(path):
        runs = find_measured(path)
        having = [(run, table) for run in runs if (table := run.checked_scan(name, _READ.get(name, ()))) is not None]
        if name == "probes":
            _refuse_of_one_time(path, having, series)
        found = []
        for number, (run, table) in enumerate(having):
            # Files of two Runs may have one name, and tests are numbered anew in each.
            found.append(table.with_columns(pl.lit(number).alias(_RUN)))
            clock_known &= run.clock_known(name)
            notes += [str(note) for source in run.sources_of(name) for note in source.get("notes") or ()]
            warnings += trusted(run)
        there = [table for table in TABLES if any(table in run.tables for run in runs)]
    elif path.is_dir():
        tables = measure_recording(path).tables
        there = list(tables)
        found = [filled(name, tables[name]).lazy()] if name in tables else []
    else:
        from bentpipe.measurements.runs.importing import assembled, read_file
        from bentpipe.measurements.runs.store import UNKNOWN_SITE

        part = read_file(path)
        clock_known, notes = part.measurement.clock != "relative", list(part.measurement.notes)
        tables = assembled([part], UNKNOWN_SITE)
        del part  # of a log of a day each column that nobody reads is 80 MB
        there = list(tables)
        found = [tables[name].select(_READ.get(name, pl.all())).lazy()] if name in tables else []
        del tables
    if not found:
        possible = ", ".join(dict.fromkeys(_ANALYSES[table] for table in there if table in _ANALYSES))
        raise UserError(
            f"{path}: holds {', '.join(there)} and no {name}; it can be analysed for: {possible or 'nothing'}"
        )
    # A prober writes the same of each of its Runs.
    return Opened(pl.concat(found), clock_known, tuple(dict.fromkeys(notes)), tuple(dict.fromkeys(warnings)))


def _refuse_of_one_time(
    path: Path, runs: Sequence[tuple[MeasuredRun, pl.LazyFrame]], series: Mapping[str, str | None]
) -> None:
    """Refuse Runs whose probes of one series are of one time: each would count twice, and none follow another."""
    if len(runs) < 2:
        return
    spans: dict[tuple[str | None, ...], list[tuple[int, int, MeasuredRun]]] = {}
    for run, table in runs:
        when = pl.col("unix_ns")
        ends = table.group_by(KEYS).agg(when.min().alias("first"), when.max().alias("last"))
        for *key, first, last in ends.collect(engine="streaming").rows():
            if all(wanted is None or wanted == of for wanted, of in zip(map(series.get, KEYS), key, strict=True)):
                spans.setdefault(tuple(key), []).append((first, last, run))
    for (site, target, kind), found in sorted(spans.items(), key=str):
        found.sort(key=lambda span: span[:2])
        for (_, last, one), (first, _, other) in pairwise(found):
            timeless = next((run for run in (one, other) if not run.clock_known("probes")), None)
            if timeless is None and first > last:
                continue
            why = (
                "are of the same time" if timeless is None else f"cannot be put in order: {timeless.path} has no clock"
            )
            raise UserError(
                f"{path}: probes {series_name(site, target, kind)} of two Runs, {one.path} and {other.path}, {why}; "
                "analyze one of them (files without times: `bentpipe read` them together)"
            )


def _prepared(table: pl.LazyFrame, wanted: Wanted) -> pl.LazyFrame:
    """A table of a measured Run as its analysis reads it."""
    if wanted == "probes":
        return table.filter(~pl.col("duplicate"))
    if wanted == "orientation":
        return table.select(
            pl.col("boresight_azimuth_deg").cast(pl.Float64).alias("azimuth_deg"),
            pl.col("boresight_elevation_deg").cast(pl.Float64).alias("elevation_deg"),
            # Nothing came back to be timed.
            pl.when(pl.col("pop_ping_drop_rate").fill_null(0) < 1)
            .then(pl.col("pop_ping_latency_ms"))
            .cast(pl.Float64)
            .alias("latency_ms"),
        )
    if wanted == "throughput":
        rate_bps = pl.coalesce("goodput_bps", "sent_bps")
        whose = [_RUN, "source", "test", "direction"]
        measured_s = pl.col("duration_s").filter(pl.col("rate_bps").is_not_null()).sum()
        if _RUN not in table.collect_schema():
            table = table.with_columns(pl.lit(0).alias(_RUN))
        return (
            table.filter(~pl.col("omitted").fill_null(value=False))
            .with_columns(rate_bps.alias("rate_bps"), pl.col("duration_s").fill_null(1.0))
            # Of a test the mean over its time; of its flows, which share the path, the sum.
            .group_by(*whose, "flow", maintain_order=True)
            .agg(
                pl.col("unix_ns").min(),
                # Without any rate it failed: 0 / 0, and not 0 bit/s.
                ((pl.col("rate_bps") * pl.col("duration_s")).sum() / measured_s).fill_nan(None).alias("rate_bps"),
            )
            .group_by(*whose, maintain_order=True)
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
