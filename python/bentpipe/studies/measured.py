"""Measurements from ``--data``: known campaigns, measured Runs or one file, each with its file's name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from bentpipe.analysis.orientation import POINTING
from bentpipe.analysis.path import HOPS
from bentpipe.analysis.tables import KEYS, PINGS, check_columns
from bentpipe.measurements.dish.dumps.recordings import is_recording
from bentpipe.measurements.runs.analysis_input import LoadedTable, TableKind, load_table
from bentpipe.measurements.runs.store import MeasuredRun, find_measured
from bentpipe.studies.files import CampaignEntry, Campaigns
from bentpipe.times import format_utc

_COLUMNS = {"probes": PINGS, "hops": HOPS, "orientation": POINTING}
#: Kind → table of a measured Run.
_RUN_TABLES = {"probes": "probes", "hops": "hops", "orientation": "dish_samples"}


@dataclass(frozen=True)
class Part:
    """Measurements of one file or Run.

    Attributes:
        name: Name in the rows.
        basis: ``measured: FILE``, or ``simulated: …``.
        table: Input of the analysis.
        losses_known: Whether lost probes have rows; some probers omit them.
        clock_known: Whether its times are wall-clock times.
        warnings: Reasons for doubt, one line each.
    """

    name: str
    basis: str
    table: pl.DataFrame
    losses_known: bool = True
    clock_known: bool = True
    warnings: Sequence[str] = ()

    @property
    def text(self) -> str:
        """Describe the part in one line: name, origin and number of rows."""
        line = f"{self.name}: {self.basis}, {self.table.height} rows"
        if self.basis.startswith("measured") and "unix_ns" in self.table.columns:
            start, end = (int(value) for value in self.table["unix_ns"].sort()[[0, -1]])
            since = f"from {format_utc(start // 10**9 * 10**9)}" if self.clock_known else "by no wall clock"
            line += f", {(end - start) / 1e9:.0f} s {since}"
        return "; ".join([line, *self.warnings])


def joint_basis(parts: Sequence[Part]) -> str:
    """Return the basis of a value from several parts."""
    by_kind: dict[str, list[str]] = {}
    for part in parts:
        kind, _, where = part.basis.partition(": ")
        by_kind.setdefault(kind, []).append(where)
    return "; ".join(f"{kind}: {', '.join(dict.fromkeys(places))}" for kind, places in by_kind.items())


def load_campaigns() -> list[CampaignEntry]:
    """Read the known campaigns of ``scenarios/studies/campaigns.toml``."""
    return list(Campaigns.load().campaigns.values())


def probe_series(data: Path | None) -> list[Part]:
    """Read the pings below `data`, one part per series (site, target, file), sorted by file.

    Raises:
        UserError: `data` is a file that has no pings, or holds Runs that were not measured.
    """
    return [series for part in _parts(data, "probes") for series in _series(part)]


def measured_parts(data: Path | None, kind: TableKind) -> list[Part]:
    """Read the tables of one kind below `data`, one part per file or Run; empty where there are none.

    Raises:
        UserError: `data` is a file that has no such table, or holds Runs that were not measured.
    """
    return list(_parts(data, kind))


def _parts(data: Path | None, kind: TableKind) -> Iterator[Part]:
    if data is None:
        return
    if data.is_file() or is_recording(data):
        measured = load_table(data, kind)
        check_columns(measured.table, _COLUMNS[kind], f"{data}: {kind}")
        yield _part(data.name, f"measured: {data}", measured)
        return
    for campaign in load_campaigns():
        file = data / campaign.file
        if campaign.table == kind and file.is_file():
            measured = load_table(file, kind)
            table = measured.table
            for key, value in (("site", campaign.site), ("target", campaign.target)):
                if value is not None and key in table.collect_schema():
                    table = table.with_columns(pl.lit(value).alias(key))
            measured = replace(measured, table=table)
            yield _part(campaign.site or campaign.file, f"measured: {campaign.file}", measured)
    for run in _runs(data):
        if _RUN_TABLES[kind] in run.tables:
            place = run.path.relative_to(data) if run.path != data else run.path
            yield _part(run.site, f"measured: {place}", load_table(run.path, kind))


def _runs(data: Path) -> list[MeasuredRun]:
    """Return the measured Runs in a folder; empty if it holds no Run of any kind, like a campaign folder."""
    there = any(next(data.glob(f"{depth}run.json"), None) for depth in ("", "*/", "*/*/"))
    return find_measured(data) if there else []


def _part(name: str, basis: str, measured: LoadedTable) -> Part:
    table = measured.table.collect()
    known = "rtt_ms" not in table.columns or table["rtt_ms"].null_count() > 0
    return Part(name, basis, table, known, measured.clock_known, measured.warnings)


def _series(part: Part) -> Iterator[Part]:
    keys = [key for key in KEYS if key in part.table.columns]
    if not keys:
        yield part
        return
    series = part.table.partition_by(keys, maintain_order=True)
    ends = [
        " → ".join(str(rows[key][0]) for key in keys if key != "kind" and rows[key][0] is not None) for rows in series
    ]
    for rows, name in zip(series, ends, strict=True):
        # The kind of probe is named only where the names would be ambiguous.
        how = f" ({rows['kind'][0]})" if ends.count(name) > 1 and "kind" in keys else ""
        yield replace(part, name=(name or part.name) + how, table=rows)
