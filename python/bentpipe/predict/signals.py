"""Signals: one measured series on a regular grid, from the files that users have.

A *latency* signal is ``pop_ping_latency_ms`` of a terminal, a running mean of about 15 s that the terminal takes, or
``ping_rtt_ms``, the mean RTT of the pings of each second. These are two signals: a model of one says nothing about the
other. A *throughput* signal is the goodput of each second.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import polars as pl

from bentpipe.errors import UserError
from bentpipe.measurements.readers.column_names import normal_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Target = Literal["latency", "throughput"]

TARGETS: tuple[Target, ...] = get_args(Target)
"""What can be predicted."""

STEP_S = 1.0
"""Step of every signal [s]."""

LONGEST_GAP_S = 30.0
"""A gap longer than this ends a session [s]: that of `crates/signals`."""

TELEMETRY = "pop_ping_latency_ms"
PINGS = "ping_rtt_ms"
THROUGHPUT = "goodput_mbps"

SMOOTHING_S = {TELEMETRY: 15.0, PINGS: 1.0, THROUGHPUT: 1.0}
"""Length of the mean that a sample of a signal is [s]; of a terminal's latency as measured (facts on `predict`)."""

_TABLES = ("probes", "samples", "dish_samples")
_TIMES = ("time_utc", "timestamp", "t_unix_ns", "unix_ns")


@dataclass(frozen=True)
class Session:
    """A stretch of a signal without a long gap.

    Attributes:
        t_s: Times of the steps [s since 1970, or since an unknown moment], shape (n,): the start of each.
        values: Samples in the signal's unit, shape (n,); NaN: none.
    """

    t_s: Floats
    values: Floats


@dataclass(frozen=True)
class Signal:
    """One measured series on a regular grid.

    Attributes:
        name: ``pop_ping_latency_ms``, ``ping_rtt_ms`` or ``goodput_mbps``.
        source: Name of the file.
        sessions: Its stretches, in sequence.
        clock_known: Whether times are those of a wall clock.
        notes: What the readers assumed.
    """

    name: str
    source: str
    sessions: tuple[Session, ...]
    clock_known: bool = True
    notes: tuple[str, ...] = ()

    @property
    def target(self) -> Target:
        """What a model of it predicts."""
        return target_of(self.name)

    @property
    def unit(self) -> str:
        """Unit of its values."""
        return "Mbit/s" if self.name == THROUGHPUT else "ms"

    @property
    def samples(self) -> int:
        """Number of its samples."""
        return sum(int(np.isfinite(each.values).sum()) for each in self.sessions)

    @property
    def span(self) -> tuple[float, float]:
        """First and last time [s]."""
        return float(self.sessions[0].t_s[0]), float(self.sessions[-1].t_s[-1])


def target_of(name: str) -> Target:
    """Return what a model of a signal predicts."""
    return "throughput" if name == THROUGHPUT else "latency"


def read_signal(path: str | Path, target: Target, column: str | None = None) -> Signal:
    """Read a signal from a file or a folder.

    Args:
        path: A terminal's recording (folder or Parquet), a measured Run, or a file that `bentpipe read` reads.
        target: ``latency`` or ``throughput``.
        column: Column of a Parquet file, in milliseconds or bit/s; None: that of the signal.

    Raises:
        UserError: Unreadable, without such a signal, or with too few samples.
    """
    path = Path(path)
    if target not in TARGETS:
        raise UserError(f"{target!r} is no target", where="target", expected=" or ".join(TARGETS))
    loaded = _telemetry(path, target, column) or _measured(path, target)
    sessions = on_grid(loaded.t_s, loaded.values)
    if times := int((np.diff(loaded.t_s) < -STEP_S).sum()):
        warnings.warn(
            f"{path}: its clock goes back {times} time{'s' if times > 1 else ''}: each part counts as its own series",
            UserWarning,
            stacklevel=2,
        )
    if not sessions:
        raise UserError("has no two samples within 30 s", where=str(path), expected=f"a series of {target}")
    return Signal(loaded.name, path.name, sessions, loaded.clock_known, loaded.notes)


@dataclass(frozen=True)
class _Samples:
    name: str
    t_s: Floats
    values: Floats
    clock_known: bool = True
    notes: tuple[str, ...] = ()


def _telemetry(path: Path, target: Target, column: str | None) -> _Samples | None:
    """Read a Parquet table with the columns of a terminal; None: something else."""
    if not path.is_file() or not _is_parquet(path):
        return None
    try:
        table = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UserError(str(error).partition("\n")[0], where=str(path), expected="a Parquet file") from None
    names = {normal_name(name): name for name in reversed(table.columns)}
    wanted = normal_name(column) if column else TELEMETRY if target == "latency" else "downlink_throughput_bps"
    time = next((names[name] for name in _TIMES if name in names), None)
    if wanted not in names:
        if column is None and {"rtt_ms", "goodput_bps"} & set(names):
            return _columns(table, target, path)
        raise UserError(
            f"has no column {wanted}", where=str(path), expected=f"one of {', '.join(table.columns[:8])} (--column)"
        )
    if time is None:
        raise UserError("has no column of times", where=str(path), expected=f"one of {', '.join(_TIMES)}")
    values = _numbers(table[names[wanted]], path)
    is_rate = target == "throughput"
    name = THROUGHPUT if is_rate else TELEMETRY if wanted == TELEMETRY else PINGS
    return _Samples(name, times_of(table[time], path), values / 1e6 if is_rate else values)


def _measured(path: Path, target: Target) -> _Samples:
    """Read a recording, a measured Run or a tool's output."""
    from bentpipe.measurements.dish.dumps.recordings import is_recording, measure_recording
    from bentpipe.measurements.runs.imports import assemble_tables, read_file
    from bentpipe.measurements.runs.store import UNKNOWN_SITE, read_measured

    clock_known, notes = True, tuple[str, ...]()
    if path.is_dir() and not is_recording(path):
        run = read_measured(path)
        tables = {name: table for name in _TABLES if (table := run.table(name)) is not None}
        clock_known = all(run.clock_known(name) for name in tables)
    elif path.is_dir():
        tables = dict(measure_recording(path).tables)
    else:
        part = read_file(path)
        tables = assemble_tables([part], UNKNOWN_SITE)
        clock_known, notes = part.measurement.clock != "relative", tuple(part.source.notes)
    wanted = ("probes", "dish_samples") if target == "latency" else ("samples", "dish_samples")
    name = next((name for name in wanted if name in tables and tables[name].height), None)
    if name is None:
        there = ", ".join(tables) or "no table"
        raise UserError(f"has {there}", where=str(path), expected=f"one of {', '.join(wanted)} for {target}")
    return replace(_columns(tables[name], target, path), clock_known=clock_known, notes=notes)


def _columns(table: pl.DataFrame, target: Target, path: Path) -> _Samples:
    """Read a table of a measured Run."""
    is_dish = "downlink_throughput_bps" in table.columns
    if "direction" in table.columns and target == "throughput":
        table = table.filter((pl.col("direction") == "down") | pl.col("direction").is_null())
    if table.is_empty():
        raise UserError("has no row of the direction down", where=str(path), expected=f"a series of {target}")
    if target == "throughput":
        value, name = ("downlink_throughput_bps" if is_dish else "goodput_bps"), THROUGHPUT
    else:
        value, name = (TELEMETRY, TELEMETRY) if is_dish else ("rtt_ms", PINGS)
    if value not in table.columns:
        raise UserError(f"has no column {value}", where=str(path), expected=f"a series of {target}")
    values = _numbers(table[value], path)
    t_s = times_of(table["t_unix_ns" if is_dish else "unix_ns"], path)
    return _Samples(name, t_s, values / 1e6 if name == THROUGHPUT else values)


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _numbers(column: pl.Series, path: Path) -> Floats:
    try:
        values = column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    except pl.exceptions.PolarsError:
        raise UserError(f"column {column.name} has no numbers", where=str(path), expected="numbers") from None
    return np.where(np.isfinite(values) & (values >= 0), values, np.nan)


def times_of(column: pl.Series, path: Path) -> Floats:
    """Return a column of times as seconds since 1970, NaN where there is none. Raises `UserError`: no times."""
    try:
        if column.dtype == pl.String:
            column = column.str.to_datetime(time_zone="UTC", strict=False)
        if isinstance(column.dtype, pl.Datetime):
            return (
                column.cast(pl.Datetime("ns")).to_physical().cast(pl.Float64).fill_null(float("nan")).to_numpy() / 1e9
            )
        values = column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    except pl.exceptions.PolarsError:
        raise UserError(f"column {column.name} has no times", where=str(path), expected="UTC times") from None
    return values / 1e9 if column.name.endswith("_ns") else values


def on_grid(t_s: Floats, values: Floats, step_s: float = STEP_S) -> tuple[Session, ...]:
    """Return samples on a regular grid: the mean of each step, NaN where there is none.

    Samples about a step apart, as of a poll, are moved to the nearest point of their own grid. Denser ones are averaged
    over whole steps. Times that go back (a clock that was set) and gaps of over 30 s begin a new session.

    Args:
        t_s: Times [s], shape (n,).
        values: Samples, shape (n,); NaN: a lost probe.
        step_s: Step [s].

    Example:
        >>> (session,) = on_grid(np.array([0.1, 1.1, 3.12]), np.array([5.0, 6.0, 8.0]))
        >>> session.t_s.round(2).tolist(), session.values.tolist()
        ([0.1, 1.1, 2.1, 3.1], [5.0, 6.0, nan, 8.0])
    """
    known = np.isfinite(t_s)
    t_s, values = t_s[known], values[known]
    if len(t_s) < 2:
        return ()
    steps = np.diff(t_s)
    breaks = np.flatnonzero((steps < -step_s) | (steps > LONGEST_GAP_S)) + 1
    sessions = []
    for part in np.split(np.arange(len(t_s)), breaks):
        order = part[np.argsort(t_s[part], kind="stable")]
        session = _grid(t_s[order], values[order], step_s)
        if session is not None:
            sessions.append(session)
    return tuple(sessions)


def _grid(t_s: Floats, values: Floats, step_s: float) -> Session | None:
    if len(t_s) < 2:
        return None
    is_polled = float(np.median(np.diff(t_s))) > 0.6 * step_s
    offset_s = 0.0
    if is_polled:  # the circular mean of the times within a step
        turns = np.exp(2j * np.pi * t_s / step_s).mean()
        offset_s = float(np.angle(turns) / (2 * np.pi) * step_s) % step_s
    place = np.floor((t_s - offset_s) / step_s + (0.5 if is_polled else 0.0)).astype(np.int64)
    place -= (first := int(place[0]))
    valid = np.isfinite(values)
    count = np.bincount(place[valid], minlength=int(place[-1]) + 1)
    total = np.bincount(place[valid], weights=values[valid], minlength=int(place[-1]) + 1)
    mean = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    if (count > 0).sum() < 2:
        return None
    return Session((first + np.arange(len(count), dtype=np.float64)) * step_s + offset_s, mean.astype(np.float64))


def join(signals: Sequence[Signal]) -> str:
    """Return the common name of signals. Raises `UserError` if they differ."""
    names = {signal.name: signal.source for signal in signals}
    if len(names) > 1:
        (one, first), (other, second) = list(names.items())[:2]
        raise UserError(
            f"holds {other}, {first} holds {one}",
            where=second,
            expected="files of one signal",
            hint="score them apart",
        )
    return next(iter(names))
