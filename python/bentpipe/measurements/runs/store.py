"""The measured Run on disk: ``<root>/<site>/<start time>/`` with `run.json` and the tables that there are.

Written beside its place and moved there in one step, as every Run; checked when it is read.
Layout and columns: ``docs/reference/measured-run.md``.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.damage import gone_through, scan_parquet
from bentpipe.errors import UserError
from bentpipe.measurements.runs.counting import count_probes
from bentpipe.measurements.runs.tables import DISH, TABLES, WHEN, filled
from bentpipe.runs import store

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

UNKNOWN_SITE = "here"
"""The site of measurements that say none, and whose user said none."""

_REQUIRED = {
    "site": str,
    "start_unix_ns": int,
    "sources": list,
    "summary": dict,
    "valid": bool,
    "versions": dict,
    "files": dict,
}


@dataclass(frozen=True)
class Source:
    """Where a part of a Run comes from.

    Attributes:
        name: A file's name without its folder, or a prober's command.
        format: As `bentpipe read` names it; of a prober its name.
        bytes: Size of the file; None: there was none.
        sha256: Of its bytes, as they were; None: there was none.
        clock: ``utc``: its times are those of a wall clock; ``relative``: only their differences mean anything.
        notes: What is missing in it or was assumed about it, a line each.
        tables: The tables of the Run that something of it is in; empty: not known (Runs of before that was written).
        series: What its probes are of, each with `site`, `target` and `kind`; empty: not known, or no probes.
    """

    name: str
    format: str
    bytes: int | None = None
    sha256: str | None = None
    clock: str = "utc"
    notes: Sequence[str] = ()
    tables: Sequence[str] = ()
    series: Sequence[Mapping[str, str | None]] = ()


@dataclass(frozen=True)
class MeasuredRun:
    """A measured Run on disk. `record` is its `run.json`; tables are read, and checked, when asked for."""

    path: Path
    record: Mapping[str, Any]

    @property
    def site(self) -> str:
        """Where it was measured."""
        return str(self.record["site"])

    @property
    def start_unix_ns(self) -> int:
        """Its first time [ns since 1970]."""
        return int(self.record["start_unix_ns"])

    @property
    def summary(self) -> Mapping[str, Any]:
        """Counts, by table."""
        found: Mapping[str, Any] = self.record["summary"]
        return found

    @property
    def tables(self) -> list[str]:
        """The names of the tables that it has."""
        return [name for name in TABLES if f"{name}.parquet" in self.record["files"]]

    def sources_of(self, *tables: str) -> list[Mapping[str, Any]]:
        """The sources that something in one of these tables is from, or may be."""
        return [
            source
            for source in self.record["sources"]
            if not source.get("tables") or any(name in source["tables"] for name in tables)
        ]

    def clock_known(self, *tables: str) -> bool:
        """Whether the times in all of these tables are those of a wall clock."""
        return all(source.get("clock") != "relative" for source in self.sources_of(*tables))

    @property
    def probes(self) -> pl.DataFrame | None:
        """`probes.parquet`; None: it has none."""
        return self.table("probes")

    @property
    def hops(self) -> pl.DataFrame | None:
        """`hops.parquet`; None: it has none."""
        return self.table("hops")

    @property
    def samples(self) -> pl.DataFrame | None:
        """`samples.parquet`; None: it has none."""
        return self.table("samples")

    @property
    def links(self) -> pl.DataFrame | None:
        """`links.parquet`; None: it has none."""
        return self.table("links")

    @property
    def dish(self) -> dict[str, pl.DataFrame]:
        """The tables of a recording that it has: ``samples``, ``events``, ``maps``."""
        found = {name.removeprefix("dish_"): self.table(name) for name in DISH}
        return {name: table for name, table in found.items() if table is not None}

    def table(self, name: str) -> pl.DataFrame | None:
        """A table by its name; None: it has none.

        Raises:
            UserError: Its file is missing, damaged or edited.
        """
        return store.read_table(self.path, self.record, name, _REDO) if name in self.tables else None

    def scan(self, name: str) -> pl.LazyFrame | None:
        """As `table`, but read when it is collected, and only what is asked for. Its hash is not looked at."""
        return pl.scan_parquet(self.path / f"{name}.parquet", glob=False) if name in self.tables else None

    def checked_scan(self, name: str, columns: Sequence[str] = ()) -> pl.LazyFrame | None:
        """As `scan`, of a Run that others may have touched; `columns`: those that will be read, empty: all.

        Raises:
            UserError: Its file is missing or damaged.
        """
        if name not in self.tables:
            return None
        file = self.path / f"{name}.parquet"
        return gone_through(
            lambda: scan_parquet(file),
            lambda reason: UserError(f"{file}: does not read ({reason}): {_REDO}"),
            columns,
        )


_REDO = "read the measurement again"


class SameMeasurementError(UserError):
    """A Run of the same sources is there already: `there`."""

    def __init__(self, there: Path) -> None:
        """Where."""
        super().__init__(f"{there}: holds the same measurement already; remove it, or give another folder (-o)")
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
    """Write a measured Run below `out`; it is there whole or not at all, and never in the place of another.

    Args:
        out: Folder for Runs.
        tables: By name of `TABLES`; columns that are absent are null. Probes are sorted by time here. Empty ones are
            left out.
        sources: Where they come from.
        site: Where it was measured.
        start_unix_ns: Its first time [ns since 1970]; None: the earliest in the tables, or 0 where none says.
        summary: What only the one who measured knows, beside the counts that come from the tables: `clock_jumps`.
        versions: Of programs that took part, beside bentpipe's own.
        why_invalid: Why it is not to be trusted, in one line; None: it is.

    Raises:
        UserError: An unknown table or column, no rows at all, or a Run from the same sources is there already.
        StoreError: The disk refuses; nothing is left behind then.
    """
    from bentpipe.runs.record import versions as own_versions

    if strange := [name for name in tables if name not in TABLES]:
        raise UserError(f"a measured Run has no table {strange[0]!r}; wanted {', '.join(TABLES)}")
    store.check_folder(Path(out))
    whole = {name: filled(name, tables[name]) for name in TABLES if name in tables and tables[name].height}
    if not whole:
        raise UserError("nothing was measured: no table has a row")
    if "probes" in whole:
        # The flags of a prober that has none are false, not unknown.
        whole["probes"] = _sorted(whole["probes"].with_columns(pl.col("duplicate", "out_of_order").fill_null(False)))
    if start_unix_ns is None:
        starts = [int(whole[name][when].min() or 0) for name, when in WHEN.items() if name in whole]  # type: ignore[arg-type]
        start_unix_ns = min(starts, default=0)
    counts: dict[str, Any] = {"tables": {name: table.height for name, table in whole.items()}, "clock_jumps": 0}
    if "probes" in whole:
        counts |= count_probes(whole["probes"])
    record = {
        "format": store.FORMAT,
        "world": store.MEASURED,
        "site": site,
        "start_unix_ns": start_unix_ns,
        "sources": [
            asdict(source) | {name: list(getattr(source, name)) for name in ("notes", "tables", "series")}
            for source in sources
        ],
        "versions": {**own_versions("simulated"), **(versions or {})},
        "valid": why_invalid is None,
        "why_invalid": why_invalid,
        "summary": {**counts, **(summary or {})},
    }
    folder = _free(Path(out) / store.safe_name(site) / store.basic_utc(start_unix_ns // 10**9 * 10**9), record)
    return MeasuredRun(folder, store.write_folder(folder, record, whole))


def _sorted(probes: pl.DataFrame) -> pl.DataFrame:
    return probes if probes["unix_ns"].is_sorted() else probes.sort("unix_ns", maintain_order=True)


def _free(folder: Path, record: Mapping[str, Any]) -> Path:
    """`folder`, or one beside it if another measurement began in the same second."""
    place, number = folder, 2
    while place.exists():
        try:
            there = read_measured(place).record["sources"]
        except UserError:
            there = None
        if _about(there) == _about(record["sources"]):
            raise SameMeasurementError(place)
        place, number = folder.with_name(f"{folder.name}~{number}"), number + 1
    return place


def _about(sources: Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Sources without what Runs of before do not say."""
    return None if sources is None else [{**source, "tables": None, "series": None} for source in sources]


def read_measured(path: str | os.PathLike[str]) -> MeasuredRun:
    """A measured Run: its folder, or one above it that holds no other.

    Raises:
        UserError: None there, several, or not what was written; the message names it and says what to do.
    """
    folder = Path(path)
    if not (folder / "run.json").exists():
        found = find_measured(folder)
        if len(found) > 1:
            names = ", ".join(str(run.path) for run in found[:3])
            raise UserError(f"{path}: holds {len(found)} measured Runs ({names}{', …' if found[3:] else ''}); give one")
        return found[0]
    return _checked(folder)


def _checked(folder: Path) -> MeasuredRun:
    record = store.read_record(folder, _REDO)
    file = folder / "run.json"
    if record.get("world") != store.MEASURED:
        raise UserError(f"{file}: this Run was {record.get('world')}, not measured; wanted what `bentpipe read` writes")
    for key, kind in _REQUIRED.items():
        if type(record.get(key)) is not kind:
            raise store.DamagedRunError(f"{file}: field {key!r} is no {kind.__name__}; {_REDO}")
    return MeasuredRun(folder, record)


def find_measured(root: str | os.PathLike[str]) -> list[MeasuredRun]:
    """Every measured Run at or below `root`, sorted by path; damaged ones are warned of and left out.

    Raises:
        UserError: There is none, or one is of a newer format.
    """
    root = Path(root)
    store.check_folder(root)
    if not root.is_dir():
        raise UserError(f"{root}: no such folder; wanted the -o of `bentpipe read`")
    runs = []
    files = [file for depth in ("", "*/", "*/*/") for file in sorted(root.glob(f"{depth}run.json"))]
    for file in files:
        if file.parent.name.startswith(store.PARTIAL):
            continue
        try:
            if store.read_record(file.parent, _REDO).get("world") == store.MEASURED:
                runs.append(_checked(file.parent))
        except store.DamagedRunError as error:
            warnings.warn(f"a damaged Run is left out: {error}", store.DamagedRunWarning, stacklevel=2)
    if not runs:
        raise UserError(
            f"{root}: no measured Run in it (looked for <site>/<start time>/run.json); of logs as they are "
            f"`bentpipe read {root} -o OUT` makes one"
        )
    return runs
