"""Storage of measured Runs: ``<root>/<site>/<start time>/`` with `run.json` and its tables.

A Run is written to a temporary folder and renamed in one step, like every Run; it is checked when it is read.
Layout and columns: ``docs/reference/measured-run.md``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl
from pydantic import Field

from bentpipe.damage import decoded_scan, scan_parquet
from bentpipe.errors import UserError
from bentpipe.measurements.runs.counts import count_probes
from bentpipe.measurements.runs.tables import DISH, TABLES, TIME_COLUMNS, filled
from bentpipe.records import Items, Record
from bentpipe.runs import store
from bentpipe.runs.run_record import MEASURED_FORMAT

if TYPE_CHECKING:
    import os

UNKNOWN_SITE = "here"
"""The site of measurements if neither the file nor the user names one."""


class Source(Record):
    """A source of a Run: a file or a prober."""

    name: str
    """Name of a file without its folder, or the command of a prober."""
    format: str
    """Format name of `bentpipe read`, or the name of the prober."""
    bytes: int | None = None
    """Size of the file; None: no file."""
    sha256: str | None = None
    """Hash of the file; None: no file."""
    clock: Literal["utc", "relative"] = "utc"
    """``utc``: its times are wall-clock times; ``relative``: only their differences are meaningful."""
    notes: Items[str] = ()
    """One line per missing fact or assumption."""
    tables: Items[str] = ()
    """Tables of the Run with data from it; empty: unknown."""
    series: Items[Mapping[str, str | None]] = ()
    """Its series of probes, each with `site`, `target` and `kind`; empty: unknown, or no probes."""


class MeasuredRecord(Record):
    """`run.json` of a measured Run."""

    format: Literal[2] = MEASURED_FORMAT
    """Number of the format."""
    world: Literal["measured"] = "measured"
    """Where it ran."""
    site: str
    """Place of the measurement."""
    start_unix_ns: int
    """Its first time [ns since 1970, UTC]."""
    sources: Items[Source]
    """The files or probers that its tables come from."""
    versions: dict[str, str]
    """Versions of the software that made it."""
    valid: bool
    """Whether its figures count."""
    why_invalid: str | None = None
    """The reason why they do not."""
    summary: dict[str, Any]
    """Counts, by table."""
    files: dict[str, str] = Field(default_factory=dict)
    """SHA-256 of each table's file."""


@dataclass(frozen=True)
class MeasuredRun:
    """A measured Run on disk. `record` is its `run.json`; tables are read and checked on access."""

    path: Path
    record: MeasuredRecord

    @property
    def site(self) -> str:
        """Place of the measurement."""
        return self.record.site

    @property
    def start_unix_ns(self) -> int:
        """Its first time [ns since 1970]."""
        return self.record.start_unix_ns

    @property
    def summary(self) -> Mapping[str, Any]:
        """Counts, by table."""
        return self.record.summary

    @property
    def tables(self) -> list[str]:
        """Names of its tables."""
        return [name for name in TABLES if f"{name}.parquet" in self.record.files]

    def sources_of(self, *tables: str) -> list[Source]:
        """Return the sources of data in one of these tables, including possible ones."""
        return [
            source
            for source in self.record.sources
            if not source.tables or any(name in source.tables for name in tables)
        ]

    def clock_known(self, *tables: str) -> bool:
        """Return whether all of these tables have wall-clock times."""
        return all(source.clock != "relative" for source in self.sources_of(*tables))

    @property
    def probes(self) -> pl.DataFrame | None:
        """`probes.parquet`; None: absent."""
        return self.table("probes")

    @property
    def hops(self) -> pl.DataFrame | None:
        """`hops.parquet`; None: absent."""
        return self.table("hops")

    @property
    def samples(self) -> pl.DataFrame | None:
        """`samples.parquet`; None: absent."""
        return self.table("samples")

    @property
    def links(self) -> pl.DataFrame | None:
        """`links.parquet`; None: absent."""
        return self.table("links")

    @property
    def dish(self) -> dict[str, pl.DataFrame]:
        """Its tables of a dish recording: ``samples``, ``events``, ``maps``."""
        tables = {name.removeprefix("dish_"): self.table(name) for name in DISH}
        return {name: table for name, table in tables.items() if table is not None}

    def table(self, name: str) -> pl.DataFrame | None:
        """Return a table by its name; None: absent.

        Raises:
            UserError: Its file is missing, damaged or edited.
        """
        return store.read_table(self.path, self.record.files, name, _REDO) if name in self.tables else None

    def scan(self, name: str) -> pl.LazyFrame | None:
        """Return `table` as a lazy frame, which reads only the needed columns. Its hash is not checked."""
        return pl.scan_parquet(self.path / f"{name}.parquet", glob=False) if name in self.tables else None

    def checked_scan(self, name: str, columns: Sequence[str] = ()) -> pl.LazyFrame | None:
        """Return `scan` after a check that the file reads; `columns`: those that will be read, empty: all.

        Raises:
            UserError: Its file is missing or damaged.
        """
        if name not in self.tables:
            return None
        file = self.path / f"{name}.parquet"
        return decoded_scan(
            lambda: scan_parquet(file),
            lambda reason: UserError(f"does not read ({reason})", where=str(file), hint=_REDO, code="damaged"),
            columns,
        )


_REDO = "reading the measurement again"


class SameMeasurementError(UserError):
    """A Run of the same sources exists already, at `there`."""

    def __init__(self, there: Path) -> None:
        """`there` is the folder of the existing Run."""
        super().__init__(f"{there}: has the same measurement already; remove it, or try another folder (-o)")
        self.there = there


def write_measured(
    out: str | os.PathLike[str],
    tables: Mapping[str, pl.DataFrame],
    sources: Sequence[Source],
    *,
    site: str = UNKNOWN_SITE,
    start_unix_ns: int | None = None,
    summary: Mapping[str, Any] | None = None,
    versions: Mapping[str, str] | None = None,
    why_invalid: str | None = None,
) -> MeasuredRun:
    """Write a measured Run below `out`, atomically; an existing Run is never replaced.

    Args:
        out: Folder for Runs.
        tables: Tables by their name in `TABLES`; absent columns become null. Probes are sorted by time here. Empty
            tables are left out.
        sources: The sources of the tables.
        site: Place of the measurement.
        start_unix_ns: First time [ns since 1970]; None: the earliest in the tables, or 0 without times.
        summary: Facts that the tables do not contain, added to the counts: `clock_jumps`.
        versions: Versions of other programs that took part.
        why_invalid: Why the Run is not to be trusted, in one line; None: valid.

    Raises:
        UserError: An unknown table or column, no rows at all, or a Run from the same sources exists already.
        StoreError: A write to the disk fails; nothing is left behind.
    """
    from bentpipe.runs.record import versions as own_versions

    if unknown := [name for name in tables if name not in TABLES]:
        raise UserError(f"a measured Run has no table {unknown[0]!r}; expected {', '.join(TABLES)}")
    store.check_folder(Path(out))
    whole = {name: filled(name, tables[name]) for name in TABLES if name in tables and tables[name].height}
    if not whole:
        raise UserError("nothing was measured: no table has a row")
    if "probes" in whole:
        # A prober without these flags has false, not null.
        whole["probes"] = _sorted(whole["probes"].with_columns(pl.col("duplicate", "out_of_order").fill_null(False)))
    if start_unix_ns is None:
        starts = [int(whole[name][when].min() or 0) for name, when in TIME_COLUMNS.items() if name in whole]  # type: ignore[arg-type]
        start_unix_ns = min(starts, default=0)
    counts: dict[str, Any] = {"tables": {name: table.height for name, table in whole.items()}, "clock_jumps": 0}
    if "probes" in whole:
        counts |= count_probes(whole["probes"])
    record = MeasuredRecord(
        site=site,
        start_unix_ns=start_unix_ns,
        sources=tuple(sources),
        versions={**own_versions("simulated"), **(versions or {})},
        valid=why_invalid is None,
        why_invalid=why_invalid,
        summary={**counts, **(summary or {})},
    )
    folder = _free(Path(out) / store.safe_name(site) / store.basic_utc(start_unix_ns // 10**9 * 10**9), record)
    return MeasuredRun(folder, record.replace(files=store.write_folder(folder, record.to_dict(), whole)))


def _sorted(probes: pl.DataFrame) -> pl.DataFrame:
    return probes if probes["unix_ns"].is_sorted() else probes.sort("unix_ns", maintain_order=True)


def _free(folder: Path, record: MeasuredRecord) -> Path:
    """Return `folder`, or a variant of it if another measurement began in the same second."""
    place, number = folder, 2
    while place.exists():
        try:
            there = read_measured(place).record.sources
        except UserError:
            there = ()
        if _about(there) == _about(record.sources):
            raise SameMeasurementError(place)
        place, number = folder.with_name(f"{folder.name}~{number}"), number + 1
    return place


def _about(sources: Sequence[Source]) -> list[Source]:
    """Return sources without what was read from them, which may depend on the version that read them."""
    return [source.replace(tables=(), series=()) for source in sources]


def read_measured(path: str | os.PathLike[str]) -> MeasuredRun:
    """Read a measured Run from its folder, or from a parent folder with no other Run.

    Raises:
        UserError: No Run, several, or a damaged one; the message names it and says what to do.
    """
    folder = Path(path)
    if not (folder / "run.json").exists():
        runs = find_measured(folder)
        if len(runs) > 1:
            names = ", ".join(str(run.path) for run in runs[:3])
            raise UserError(f"{path}: has {len(runs)} measured Runs ({names}{', …' if runs[3:] else ''}); expected one")
        return runs[0]
    return _checked(folder)


def _checked(folder: Path) -> MeasuredRun:
    record = store.read_record(folder, _REDO)
    file = folder / "run.json"
    if record.get("world") != store.MEASURED:
        raise UserError(f"{file}: this Run was {record.get('world')}, not measured; expected output of `bentpipe read`")
    return MeasuredRun(folder, store.check_record(MeasuredRecord, record, str(file), _REDO))


def measured_files(root: Path) -> list[Path]:
    """Return each `run.json` that may be a measured Run's: ``<site>/<start time>/``, and those of a testbed's results.

    A result of the testbed is ``<experiment>/<node>/<start>/<run>/``, with ``terminal/`` in it.
    """
    files = {file for depth in ("", "*/", "*/*/") for file in root.glob(f"{depth}run.json")}
    for depth in ("", "*/", "*/*/", "*/*/*/", "*/*/*/*/"):
        for mark in root.glob(f"{depth}testbed.json"):
            files |= {file for name in ("", "terminal") if (file := mark.parent / name / "run.json").exists()}
    return sorted(files)


def find_measured(root: str | os.PathLike[str]) -> list[MeasuredRun]:
    """Return every measured Run at or below `root`, sorted by path; damaged ones are left out with a warning.

    Raises:
        UserError: There is none, or one has a newer format.
    """
    root = Path(root)
    store.check_folder(root)
    if not root.is_dir():
        raise UserError(f"{root}: no such folder; expected the -o of `bentpipe read`")
    runs = []
    for file in measured_files(root):
        if file.parent.name.startswith(store.PARTIAL):
            continue
        try:
            if store.read_record(file.parent, _REDO).get("world") == store.MEASURED:
                runs.append(_checked(file.parent))
        except store.DamagedRunError as error:
            warnings.warn(f"a damaged Run is left out: {error}", store.DamagedRunWarning, stacklevel=2)
    if not runs:
        raise UserError(
            f"{root}: has no measured Run (looked for <site>/<start time>/run.json); for logs, try "
            f"`bentpipe read {root} -o OUT` first"
        )
    return runs
