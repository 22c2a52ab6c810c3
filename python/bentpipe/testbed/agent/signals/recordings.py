"""Read a recording as signals: of a terminal, of pings, or a measured Run with both."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError
from bentpipe.testbed.agent.signals.catalogue import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import polars as pl
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

COLUMNS = {
    "latency_ms": "latency_smoothed_ms",
    "drop_rate": "drop_rate",
    "downlink_bps": "downlink_bps",
    "uplink_bps": "uplink_bps",
    "obstructed": "obstructed",
    "azimuth_deg": "boresight_azimuth_deg",
    "elevation_deg": "boresight_elevation_deg",
    "uptime_s": "uptime_s",
}
"""Field of `bentpipe.aware.documents.Telemetry` → signal."""

SUBSTITUTED = (
    "latency_ms is the status' latency here, a mean of some 15 s: this recording has no other. "
    "Live it is the newest second of the terminal's history, or a ping, and jumps more"
)


@dataclass(frozen=True)
class Series:
    """Samples of one kind.

    Attributes:
        t_s: Times [s since 1970], shape (n,), rising.
        values: Signal → its samples, shape (n,); NaN: none.
        hold_s: How long a value counts as the present one [s].
    """

    t_s: Floats
    values: Mapping[str, Floats]
    hold_s: float


@dataclass(frozen=True)
class SignalRecording:
    """A recording as signals.

    Attributes:
        series: Its series.
        clock_known: Whether times are those of a wall clock.
        notes: What the reader assumed, one line each.
    """

    series: tuple[Series, ...]
    clock_known: bool = True
    notes: tuple[str, ...] = ()

    @property
    def signals(self) -> frozenset[str]:
        """Names of its signals."""
        return frozenset(name for each in self.series for name in each.values)

    @property
    def hold_s(self) -> dict[str, float]:
        """How long a value of each signal counts as the present one [s]."""
        return {name: each.hold_s for each in self.series for name in each.values}

    def rows(self) -> Iterator[tuple[float, dict[str, float]]]:
        """Yield all samples by time."""
        yield from heapq.merge(*(_rows(each) for each in self.series), key=itemgetter(0))


def read_recording(path: Path) -> SignalRecording:
    """Read a recording.

    Args:
        path: A folder of `bentpipe dish record`, a Parquet table of a terminal, a measured Run, or a file that
            `bentpipe read` reads.

    Raises:
        UserError: Unreadable, or without samples of a terminal or pings.
    """
    tables, clock_known, notes = _tables(path)
    series = []
    if (dish := tables.get("dish")) is not None:
        series.append(dish)
    if (probes := tables.get("probes")) is not None:
        series.append(probes)
    if not series:
        raise UserError("has no samples of a terminal and no pings", where=str(path), expected="a recording with them")
    names = {name for each in series for name in each.values}
    if "latency_ms" not in names:
        source = "ping_ms" if "ping_ms" in names else "latency_smoothed_ms"
        series = [
            Series(each.t_s, {**each.values, "latency_ms": each.values[source]}, each.hold_s)
            if source in each.values
            else each
            for each in series
        ]
        if source == "latency_smoothed_ms":
            notes = (*notes, SUBSTITUTED)
    return SignalRecording(tuple(series), clock_known, notes)


def _tables(path: Path) -> tuple[dict[str, Series], bool, tuple[str, ...]]:
    from bentpipe.aware.feeds import read_samples
    from bentpipe.measurements.dish.dumps.recordings import is_recording
    from bentpipe.measurements.runs.imports import assemble_tables, read_file
    from bentpipe.measurements.runs.store import UNKNOWN_SITE, find_measured

    if path.is_dir() and not is_recording(path):
        import polars as pl

        runs = find_measured(path)
        joined: dict[str, pl.DataFrame] = {}
        for name in ("dish_samples", "probes"):
            parts = [table for run in runs if (table := run.table(name)) is not None]
            if parts:
                joined[name] = pl.concat(parts)
        clock_known = all(run.clock_known("dish_samples", "probes") for run in runs)
        return _of_measured(joined, path), clock_known, ()
    if path.is_dir() or _is_table_of_a_terminal(path):
        return {"dish": _of_samples(list(read_samples(path)), _unsmoothed(path))}, True, ()
    part = read_file(path)
    tables = _of_measured(assemble_tables([part], UNKNOWN_SITE), path)
    return tables, part.measurement.clock != "relative", tuple(part.source.notes)


def _is_table_of_a_terminal(path: Path) -> bool:
    import polars as pl

    from bentpipe.files import open_input
    from bentpipe.measurements.readers.column_names import normal_name

    with open_input(path) as file:
        if file.read(4) != b"PAR1":
            return False
    try:
        names = {normal_name(name) for name in pl.read_parquet_schema(path)}
    except (pl.exceptions.PolarsError, OSError):
        return False
    return "pop_ping_latency_ms" in names


def _unsmoothed(path: Path) -> tuple[Floats, Floats] | None:
    """Return times and latencies of the newest second of the history beside each status; None: there are none.

    That is what starlink-grpc-tools writes with one sample a time, and `bentpipe dish record` for filled gaps.
    """
    import polars as pl

    from bentpipe.measurements.readers.column_names import normal_name
    from bentpipe.predict.signals import times_of

    if path.is_dir():
        return None
    schema = pl.read_parquet_schema(path)
    names = {normal_name(name): name for name in reversed(list(schema))}
    time = next((names[name] for name in ("t_unix_ns", "time_utc", "timestamp") if name in names), None)
    if time is None or not {"mean_all_ping_latency", "samples"} <= names.keys():
        return None
    table = pl.read_parquet(path, columns=[time, names["mean_all_ping_latency"], names["samples"]])
    table = table.filter(pl.col(names["samples"]) == 1)
    latency = table[names["mean_all_ping_latency"]].cast(pl.Float64).fill_null(float("nan"))
    return times_of(table[time], path), latency.to_numpy()


def _of_samples(samples: list[object], unsmoothed: tuple[Floats, Floats] | None) -> Series:
    """Return the series of `bentpipe.aware.state.Sample`s."""
    t_s = np.array([sample.t_s for sample in samples])  # type: ignore[attr-defined]
    values = {}
    for theirs, ours in COLUMNS.items():
        column = np.array([_number(sample.values.get(theirs)) for sample in samples])  # type: ignore[attr-defined]
        if np.isfinite(column).any():
            values[ours] = _plausible(ours, column)
    if unsmoothed is not None:
        # The same rows without those of unknown or repeated times.
        place = np.clip(np.searchsorted(unsmoothed[0], t_s), 0, len(unsmoothed[0]) - 1)
        same = np.abs(unsmoothed[0][place] - t_s) < 1e-3
        values["latency_ms"] = _plausible("latency_ms", np.where(same, unsmoothed[1][place], np.nan))
    return Series(t_s, values, _hold_s(t_s))


def _of_measured(tables: Mapping[str, pl.DataFrame], path: Path) -> dict[str, Series]:
    """Return the series of a measured Run's tables."""
    import polars as pl

    series: dict[str, Series] = {}
    dish = tables.get("dish_samples")
    if dish is not None and dish.height:
        rows = dish.drop_nulls("t_unix_ns").unique("t_unix_ns", keep="first").sort("t_unix_ns")
        is_history = "source" in rows.columns and (rows["source"] == "history").all()
        theirs = {
            "pop_ping_latency_ms": "latency_ms" if is_history else "latency_smoothed_ms",
            "pop_ping_drop_rate": "drop_rate",
            "downlink_throughput_bps": "downlink_bps",
            "uplink_throughput_bps": "uplink_bps",
            "currently_obstructed": "obstructed",
            "fraction_obstructed": "fraction_obstructed",
            "power_in_w": "power_w",
        }
        values = {
            ours: _plausible(ours, rows[name].cast(pl.Float64).fill_null(float("nan")).to_numpy())
            for name, ours in theirs.items()
            if name in rows.columns and rows[name].null_count() < rows.height
        }
        t_s = rows["t_unix_ns"].to_numpy() / 1e9
        series["dish"] = Series(t_s, values, _hold_s(t_s))
    probes = tables.get("probes")
    if probes is not None and probes.height:
        if probes.select("site", "target", "kind").unique().height > 1:
            raise UserError("has pings of several series", where=str(path), expected="one", hint="one run's folder")
        rows = probes.filter(~pl.col("duplicate").fill_null(value=False)).drop_nulls("unix_ns").sort("unix_ns")
        rtt_ms = rows["rtt_ms"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        t_s = rows["unix_ns"].to_numpy() / 1e9
        values = {"ping_ms": _plausible("ping_ms", rtt_ms), "ping_lost": np.isnan(rtt_ms).astype(np.float64)}
        series["probes"] = Series(t_s, values, _hold_s(t_s))
    return series


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")


def _plausible(name: str, values: Floats) -> Floats:
    signal = CATALOGUE[name]
    with np.errstate(invalid="ignore"):
        return np.where((values >= signal.least) & (values <= signal.most), values, np.nan)


def _hold_s(t_s: Floats) -> float:
    """Return one and a half usual intervals [s], at most 2 s."""
    return min(2.0, 1.5 * float(np.median(np.diff(t_s)))) if len(t_s) > 1 else 2.0


def _rows(series: Series) -> Iterator[tuple[float, dict[str, float]]]:
    names = list(series.values)
    columns = [series.values[name].tolist() for name in names]
    for t_s, *row in zip(series.t_s.tolist(), *columns, strict=True):
        yield t_s, {name: value for name, value in zip(names, row, strict=True) if value == value}  # noqa: PLR0124
