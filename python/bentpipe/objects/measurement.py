"""Measurements of a real path: read what tools print, then analyse it or make a Profile of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from bentpipe.analysis.tables import KEYS
from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.measurements.runs.analysis_input import LoadedTable, TableKind, load_parts, load_table
from bentpipe.objects import arguments
from bentpipe.objects.measured_profile import Silence, Times
from bentpipe.objects.profile import Profile
from bentpipe.objects.profile_view import DIRECTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import polars as pl

    from bentpipe.analysis.handovers import Handovers
    from bentpipe.analysis.loss import LossEpisodes
    from bentpipe.analysis.orientation import Orientation
    from bentpipe.analysis.path import PathShares
    from bentpipe.analysis.spikes import Spikes
    from bentpipe.analysis.throughput import Throughput
    from bentpipe.measurements.runs.imports import Part
    from bentpipe.objects.arguments import DurationLike, FileLike, TimeLike
    from bentpipe.objects.measurement_plots import MeasurementPlots
    from bentpipe.profiles.table import Direction

PARQUET = b"PAR1"
"""First bytes of a Parquet file."""


@dataclass(frozen=True)
class _Source:
    """Files in memory (`parts`), or measured Runs, a recording or a table at `path`."""

    path: Path
    where: str
    parts: tuple[Part, ...] | None
    skipped: tuple[tuple[Path, str], ...] = ()
    site: str = "here"


class Measurement:
    """Measurements of a real path, with an analysis per method; `bentpipe.read` makes one.

    Which analyses are possible depends on the tables: probes (latency, spikes, handovers, loss), hops (path), samples
    (throughput), dish samples (orientation).

    Attributes:
        notes: Missing facts and assumptions of the readers, one line each.

    Example:
        >>> import bentpipe as bp
        >>> measured = bp.read("ping.txt")
        >>> measured.tables, measured.handovers().found
        (['probes'], False)
    """

    def __init__(self, source: _Source, selection: Mapping[str, str | None] | None = None) -> None:
        """Take the opened files; users call `bentpipe.read`."""
        if not isinstance(source, _Source):
            raise UserError(shown(source), where="Measurement", expected="bentpipe.read(FILE)")
        self._source = source
        self._selection = dict(selection or {})
        self._loaded: dict[TableKind, LoadedTable] = {}
        parts = source.parts or ()
        skipped = [f"skipped {path}: {why}" for path, why in source.skipped]
        self.notes = tuple(dict.fromkeys([*(note for part in parts for note in part.source.notes), *skipped]))

    def select(self, *, site: str | None = None, target: str | None = None, kind: str | None = None) -> Measurement:
        """Return only the probes from a site, to a target, or of a kind (icmp, tcp, udp).

        An analysis of one series needs it where there are several.

        Raises:
            UserError: No row has that value.

        Example:
            >>> import bentpipe as bp
            >>> bp.read("ping.txt").select(target="192.0.2.1")
            <Measurement ping.txt: probes (60 rows); only target 192.0.2.1>
        """
        given = {"site": site, "target": target, "kind": kind}
        texts = {key: arguments.text(value, key) for key, value in given.items() if value is not None}
        for key, text in texts.items():
            if text not in (known := self._names(key)):
                expected = f"one of {', '.join(known)}" if known else f"none, as no row has a {key}"
                raise UserError(f"{shown(text)}{did_you_mean(text, known)}", where=key, expected=expected)
        return Measurement(self._source, {**self._selection, **texts})

    @property
    def tables(self) -> list[str]:
        """The names of its tables: ``probes``, ``hops``, ``samples``, ``links``, ``dish_samples``, …."""
        return list(self._rows())

    def to_polars(self, table: str | None = None) -> pl.DataFrame:
        """Return a table (``docs/reference/measured-run.md``); default: the first one.

        Raises:
            UserError: There is no such table.

        Example:
            >>> import bentpipe as bp
            >>> bp.read("ping.txt").to_polars("probes")["rtt_ms"].min()
            40.0
        """
        import polars as pl

        tables = self._tables()
        name = next(iter(tables)) if table is None else arguments.choice(table, "table", list(tables))
        frame = tables[name]
        for key, value in self._selection.items():
            if value is not None and key in frame.columns:
                frame = frame.filter(pl.col(key) == value)
        return frame

    def to_pandas(self, table: str | None = None) -> Any:  # noqa: ANN401 - a pandas.DataFrame, which is an extra
        """Return a table as a pandas DataFrame. Raises `UserError` without ``bentpipe[pandas]``."""
        from bentpipe.objects.frames import to_pandas

        return to_pandas(self.to_polars(table))

    def latency(self) -> pl.DataFrame:
        """Return quantiles of the RTT by site, target and kind of probe.

        Example:
            >>> import bentpipe as bp
            >>> bp.read("ping.txt").latency()["target", "probes", "lost"].rows()
            [('192.0.2.1', 60, 0)]
        """
        from bentpipe.analysis.latency import latency_summary

        return latency_summary(self._table("probes").table)

    def latency_cdf(self) -> pl.DataFrame:
        """Return the distribution of RTTs by site, target and kind of probe: `rtt_ms` and `share` at or below it.

        Example:
            >>> import bentpipe as bp
            >>> bp.read("ping.txt").latency_cdf()["share"].max()
            1.0
        """
        from bentpipe.analysis.latency import cdf

        return cdf(self._table("probes").table)

    def handovers(self) -> Handovers:
        """Find the scheduler's slots in one series of pings: period, phase and each slot, or why there are none.

        Example:
            >>> import bentpipe as bp
            >>> handovers = bp.read("ping.txt").handovers()
            >>> handovers.found, handovers.probes
            (False, 60)
        """
        from bentpipe.analysis.handovers import analyze_handovers

        loaded = self._table("probes")
        return analyze_handovers(loaded.table, clock_known=loaded.clock_known)

    def spikes(self) -> Spikes:
        """Find latency spikes above twice the median in one series of pings.

        Example:
            >>> import bentpipe as bp
            >>> bp.read("ping.txt").spikes().spikes.height
            0
        """
        from bentpipe.analysis.spikes import latency_spikes

        return latency_spikes(self._table("probes").table, self.handovers().period_s)

    def loss(self) -> LossEpisodes:
        """Find the loss episodes of one series of pings: length, spacing and second of the slot.

        Example:
            >>> import bentpipe as bp
            >>> bp.read("ping.txt").loss().episodes.height
            0
        """
        from bentpipe.analysis.loss import loss_episodes

        slots = self.handovers()
        return loss_episodes(self._table("probes").table, slots.period_s, slots.edge_unix_ns)

    def path(self) -> PathShares:
        """Return the delay of each path segment S1 to S6, and the bent pipe's share, from traceroutes.

        Example:
            >>> import bentpipe as bp
            >>> bp.read("trace.txt").path().traces["reached"].to_list()
            [True]
        """
        from bentpipe.analysis.path import path_segments

        return path_segments(self._table("hops").table)

    def orientation(self) -> Orientation:
        """Return a terminal's orientations and its latency at each.

        Example:
            >>> import bentpipe as bp
            >>> import polars as pl
            >>> table = pl.DataFrame({"azimuth_deg": [1.0], "elevation_deg": [65.0], "latency_ms": [31.0]})
            >>> table.write_parquet("orientation.parquet")
            >>> bp.read("orientation.parquet").orientation().bins["samples"].to_list()
            [1]
        """
        from bentpipe.analysis.orientation import orientation_maps

        return orientation_maps(self._table("orientation").table)

    def throughput(self, zone: str = "UTC") -> Throughput:
        """Summarise speed tests over months: level, trend, peak and off-peak.

        Args:
            zone: Time zone of the terminal, for example ``Europe/Brussels``.

        Example:
            >>> import bentpipe as bp
            >>> bp.read("rates.csv").throughput("Europe/Brussels").summary["direction", "tests"].rows()
            [('down', 2), ('up', 2)]
        """
        from bentpipe.analysis.throughput import throughput_series

        return throughput_series(self._table("throughput").table, arguments.text(zone, "zone"))

    def profile(
        self,
        *,
        capacity: str | Sequence[str] = (),
        queue: str = "1000packets",
        split: float = 0.5,
        silent: Silence = "gap",
        times: Times | None = None,
        name: str | None = None,
    ) -> Profile:
        """Make a Profile from the probes; the arguments are those of `Profile.measured`.

        `times` applies to tables; for logs it is an argument of `read`.

        Example:
            >>> import bentpipe as bp
            >>> bp.read("ping.txt").profile(capacity="100mbit").duration_s
            29.994
        """
        from bentpipe.measurements.profile import profile_from, profile_from_parts
        from bentpipe.objects.measured_profile import profile_options

        source = self._source
        options = profile_options(
            **self._selection, capacity=capacity, queue=queue, split=split, silent=silent, times=times, name=name
        )
        if source.parts is None:
            return Profile.of_measured(profile_from(source.path, options))
        return Profile.of_measured(profile_from_parts(source.parts, source.where, options, site=source.site))

    def write(self, out: FileLike, *, site: str | None = None) -> Path:
        """Store the files as a measured Run below a folder (``docs/reference/measured-run.md``); return the Run.

        Args:
            out: Folder for Runs.
            site: Name of the measured site; default: that of `read`.

        Raises:
            UserError: The measurement is stored already.
            StoreError: The disk cannot be written.

        Example:
            >>> import bentpipe as bp
            >>> folder = bp.read("ping.txt").write("out/measured", site="louvain")
            >>> bp.read(folder).tables
            ['probes']
        """
        from bentpipe.measurements.runs.imports import write_parts

        if self._source.parts is None:
            raise UserError("stored already", where=self._source.where, expected="files of tools")
        name = self._source.site if site is None else arguments.text(site, "site")
        return write_parts(self._source.parts, arguments.file(out, "out"), site=name).path

    @property
    def plot(self) -> MeasurementPlots:
        """Its figures: ``measured.plot.handovers()``."""
        from bentpipe.objects.measurement_plots import MeasurementPlots

        return MeasurementPlots(self)

    def _table(self, kind: TableKind) -> LoadedTable:
        """Return the table of an analysis, loaded once."""
        if kind not in self._loaded:
            source = self._source
            if source.parts is None:
                self._loaded[kind] = load_table(source.path, kind, **self._selection)
            else:
                self._loaded[kind] = load_parts(source.parts, source.where, source.site, kind, self._selection)
        return self._loaded[kind]

    def _rows(self) -> dict[str, int]:
        """Return the number of rows of each table, without reading stored ones."""
        import polars as pl

        from bentpipe.analysis.files import scan_file
        from bentpipe.measurements.runs.store import find_measured
        from bentpipe.measurements.runs.tables import TABLES

        source = self._source
        if source.parts is None and source.path.is_file():
            return {"probes": scan_file(source.path).select(pl.len()).collect().item()}
        each: list[Mapping[str, int]]
        if source.parts is None:
            each = [run.summary["tables"] for run in find_measured(source.path)]
        else:
            each = [{name: table.height for name, table in part.measurement.tables.items()} for part in source.parts]
        counts = {name: sum(counts.get(name, 0) for counts in each) for name in TABLES}
        return {name: count for name, count in counts.items() if count}

    def _names(self, key: str) -> list[str]:
        """Return the values of a column of names over all tables that have it."""
        import polars as pl

        from bentpipe.analysis.files import scan_file
        from bentpipe.measurements.runs.store import find_measured

        source = self._source
        if source.parts is not None:
            tables = [table.lazy() for table in self._tables().values()]
        elif source.path.is_file():
            tables = [scan_file(source.path)]
        else:
            runs = find_measured(source.path)
            tables = [scan for run in runs for name in run.tables if (scan := run.checked_scan(name)) is not None]
        having = [table.select(pl.col(key).cast(pl.String)) for table in tables if key in table.collect_schema()]
        values = [table.unique().collect(engine="streaming")[key].drop_nulls().to_list() for table in having]
        return sorted({value for each in values for value in each})

    def _tables(self) -> dict[str, pl.DataFrame]:
        """Return all tables by name."""
        import polars as pl

        from bentpipe.analysis.files import scan_file
        from bentpipe.measurements.runs.imports import assemble_tables
        from bentpipe.measurements.runs.store import find_measured
        from bentpipe.measurements.runs.tables import TABLES

        source = self._source
        if source.parts is not None:
            return assemble_tables(source.parts, source.site)
        if source.path.is_file():
            return {"probes": scan_file(source.path).collect()}
        runs = find_measured(source.path)
        frames = {name: [frame for run in runs if (frame := run.table(name)) is not None] for name in TABLES}
        return {name: pl.concat(each) for name, each in frames.items() if each}

    def __repr__(self) -> str:
        """Return one line: files, tables and rows."""
        chosen = ", ".join(f"{key} {value}" for key, value in self._selection.items() if value is not None)
        rows = ", ".join(f"{name} ({count} rows)" for name, count in self._rows().items())
        return f"<Measurement {self._source.where}: {rows}{f'; only {chosen}' if chosen else ''}>"

    def _repr_html_(self) -> str:
        """Return a table and a small figure for notebooks."""
        from bentpipe.objects import html

        rows = self._rows()
        parts = [html.facts((name, f"{count} rows") for name, count in rows.items())]
        if "probes" in rows:
            latency = self.latency()
            columns = [*KEYS, "probes", "lost", "min_ms", "median_ms", "p95_ms", "max_ms"]
            cells = [
                [html.number(cell) if isinstance(cell, (int, float)) else cell or "–" for cell in row]
                for row in latency.select(columns).rows()
            ]
            parts += [html.table(columns, cells), html.image(self.plot.latency(), "Distribution of RTTs")]
        return html.block(self._source.where, *parts)


def read(
    *files: FileLike,
    format: str | None = None,  # noqa: A002 - the word for it
    units: str | Sequence[str] | None = None,
    every: DurationLike | None = None,
    start: TimeLike | None = None,
    direction: Direction | None = None,
    times: Times | None = None,
    site: str = "here",
    on_progress: Callable[[float], object] | None = None,
) -> Measurement:
    """Read measurements: files of tools, a measured Run, a dish recording, or a table of pings.

    ping, fping, irtt, iperf3, traceroute, RIPE Atlas, mahimahi, LeoReplayer, terminals, CSV with units, plain or
    gzipped (``docs/reference/read.md``).

    Args:
        files: Files, or folders of files; several are one measurement.
        format: Format of all files; default: detected.
        units: Columns of a table with units, left to right: ``["unix_s", "-", "rtt_ms"]``; - skips one.
        every: Interval between probes, for logs without timestamps.
        start: Start of a file that has none.
        direction: Direction of a trace that has none.
        times: Whether a table's timestamps are send times (``probe``) or reply times (``reply``); default: detected.
        site: Name of the measured site.
        on_progress: Called with the share of bytes read.

    Raises:
        UserError: A file is unreadable or of no known format; the message names file, line and problem.

    Example:
        >>> import bentpipe as bp
        >>> bp.read("ping.txt").to_polars()["rtt_ms"].min()
        40.0
    """
    from bentpipe.measurements.readers.measurement import ReadHints
    from bentpipe.measurements.runs.imports import format_of, read_files

    if not files:
        raise UserError("none given", where="files", expected="at least one file or folder")
    paths = [arguments.file(each, "files") for each in files]
    given = [format, units, every, start, direction, times]
    if len(paths) == 1 and all(value is None for value in given) and _is_stored(paths[0]):
        return Measurement(_Source(paths[0], str(paths[0]), None, site=arguments.text(site, "site")))
    if format is not None:
        format_of(arguments.text(format, "format"))
    hints = ReadHints(
        None if every is None else arguments.seconds(every, "every"),
        None if start is None else arguments.unix_ns(start, "start"),
        None if units is None else _columns(units),
        None if direction is None else arguments.choice(direction, "direction", DIRECTIONS),
        None if times is None else arguments.choice(times, "times", get_args(Times)),
    )
    parts, skipped = read_files(
        paths, format_name=format, hints=hints, on_progress=arguments.callback(on_progress, "on_progress")
    )
    where = ", ".join(str(path) for path in paths)
    return Measurement(_Source(paths[0], where, tuple(parts), tuple(skipped), arguments.text(site, "site")))


def _columns(units: str | Sequence[str]) -> list[str]:
    return [name.strip() for name in units.split(",")] if isinstance(units, str) else arguments.texts(units, "units")


def _is_stored(path: Path) -> bool:
    """Tell whether a path is a measured Run, a folder of Runs, or a Parquet table."""
    from bentpipe.measurements.dish.dumps.recordings import is_recording
    from bentpipe.measurements.runs.store import measured_files

    if path.is_dir():
        return not is_recording(path) and bool(measured_files(path))
    try:
        with path.open("rb") as file:
            return file.read(len(PARQUET)) == PARQUET
    except OSError:  # the reader reports it
        return False
