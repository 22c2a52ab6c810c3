"""Capacity over time for videos: traces cut into windows, each scaled to the video, and Profiles of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError
from bentpipe.predict.signals import THROUGHPUT, Session, Signal, read_signal
from bentpipe.profiles.build import Points, Provenance, Side, single_hop_profile

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from bentpipe._native import Profile

    Floats = NDArray[np.float64]

HISTORY_S = 15
"""Seconds of a trace before its first window: what a forecast rests on at least."""

MOST_DEAD = 0.05
"""Share of seconds without any capacity above which a window is left out."""

DELAY_S = 0.02
"""One-way delay of the paths [s]; chosen here: half of a Starlink RTT of 40 ms."""

QUEUE_S = 0.2
"""Queue of the paths, at the window's median capacity [s]; chosen here."""

LEAST_QUEUE_BYTES = 45_000

LEAST_HALVED = 8
"""Length of a trace that is divided into halves [windows]."""


@dataclass(frozen=True)
class Window:
    """A stretch of a trace.

    Attributes:
        trace: Name of the trace and the second at which the window begins.
        session: The stretch of the trace that it is in.
        first: Its first step there.
        mbps: Capacity of each second, scaled [Mbit/s], shape (n,).
        scale: Factor by which it was scaled.
        fold: Number of the half that it belongs to; forecasts for it are trained on the other.
    """

    trace: str
    session: Session
    first: int
    mbps: Floats
    scale: float
    fold: int

    def path(self) -> Profile:
        """Return a path with this capacity, which starts over once at its end."""
        bps = np.concatenate([self.mbps, self.mbps]) * 1e6
        queue = max(LEAST_QUEUE_BYTES, int(np.median(bps) * QUEUE_S / 8))
        delay = Points.constant(DELAY_S)
        capacity = Points.of(np.arange(len(bps), dtype=np.float64), bps)
        return single_hop_profile(
            name=self.trace,
            hop="trace",
            start_unix_ns=0,
            duration_s=float(len(bps)),
            basis="one_way",
            provenance=Provenance("measured", f"capacity of {self.trace}, times {self.scale:.4g}"),
            up=Side(delay_s=delay),
            down=Side(delay_s=delay, capacity_bps=capacity, queue={"bytes": queue}),
        )


def read_trace(path: str | os.PathLike[str]) -> Signal:
    """Read the capacity of each second from a trace, or from a Profile (downwards).

    Args:
        path: A Profile, a packet-delivery trace (mahimahi), lines of seconds and Mbit/s (Pensieve), or a measurement of
            throughput that `predict score` takes.

    Raises:
        UserError: Unreadable, or not one of these.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise UserError(error.strerror or "cannot be read", where=str(path), expected="a trace") from None
    if head[:4] == b"PAR1" and (values := _profile(path)) is not None:
        return _signal(path, values)
    if (values := _text(path, head)) is not None:
        return _signal(path, values)
    return read_signal(path, "throughput")


def _signal(path: Path, mbps: Floats) -> Signal:
    return Signal(THROUGHPUT, path.name, (Session(np.arange(len(mbps), dtype=np.float64), mbps),), clock_known=False)


def _profile(path: Path) -> Floats | None:
    """Return the capacity of a Profile [Mbit/s]; None: the file is no Profile."""
    import polars as pl

    from bentpipe.profiles.parquet import read_profile
    from bentpipe.profiles.path import PathView

    try:
        if not {"t_s", "hop", "kind", "value"} <= set(pl.read_parquet_schema(path)):
            return None
    except pl.exceptions.PolarsError:
        return None
    view = PathView(read_profile(path))
    seconds = int(view.duration_s)
    means: Floats = view.capacity("down").means(np.arange(seconds + 1, dtype=np.float64)) / 1e6
    if not np.isfinite(means).all():
        raise UserError("has no limit of capacity downwards", where=str(path), expected="a path with a capacity")
    return means


def _text(path: Path, head: bytes) -> Floats | None:
    """Return the capacity in a packet-delivery trace or in lines of two numbers [Mbit/s]; None: something else."""
    from bentpipe.measurements.readers.traces import binned_bps, is_mahimahi, opportunities_ms

    if is_mahimahi(head):
        return binned_bps(opportunities_ms(path.read_bytes(), str(path)), 1.0)[1] / 1e6
    first = head.split(b"\n")[0].split()
    try:
        if len(first) != 2 or not all(np.isfinite(float(each)) for each in first):
            return None
    except ValueError:
        return None
    try:
        table = np.loadtxt(path, ndmin=2, dtype=np.float64)
    except ValueError:
        table = np.empty((0, 0))
    if table.ndim != 2 or table.shape[1:] != (2,) or len(table) < 2:
        raise UserError("has a line that is not two numbers", where=str(path), expected="seconds and Mbit/s a line")
    t_s, mbps = table.T
    if not (np.isfinite(table).all() and (np.diff(t_s) > 0).all() and (mbps >= 0).all() and t_s[-1] - t_s[0] < 1e6):
        raise UserError("has times that do not rise, or rates below 0", where=str(path), expected="seconds and Mbit/s")
    seconds = np.arange(np.ceil(t_s[-1] - t_s[0]))
    # As in Pensieve's simulator a rate is that of the time up to its own, since the line before; the first has none.
    held: Floats = mbps[np.searchsorted(t_s - t_s[0], seconds, side="right")]
    return held


def halves(traces: list[Signal], windows_s: int) -> list[tuple[Signal, int, float]]:
    """Return the traces in two halves: long ones by time, short ones in turn.

    Returns:
        Each with the number of the half, and the time of the file's first sample [s].
    """
    from bentpipe.predict.score import split

    parts = []
    for number, trace in enumerate(traces):
        if trace.span[1] - trace.span[0] >= LEAST_HALVED * windows_s:
            parts += [(part, fold, trace.span[0]) for fold, part in enumerate(split(trace, 0.5)) if part.sessions]
        else:
            parts.append((trace, number % 2, trace.span[0]))
    return parts


def cut(
    trace: Signal, fold: int, length_s: int, top_mbps: float, rho: float, most_dead: float, begin_s: float
) -> tuple[list[Window], int]:
    """Cut a trace into windows whose median capacity is `rho` times the video's highest bitrate.

    Args:
        trace: The trace.
        fold: Its half.
        length_s: Length of a window [s].
        top_mbps: Highest bitrate [Mbit/s].
        rho: Median capacity over that; 0: capacities as they are.
        most_dead: Largest share of seconds without capacity.
        begin_s: Time of the file's first sample [s], from which names count.

    Returns:
        The windows, and how many were left out because of that share.
    """
    windows, dead = [], 0
    for session in trace.sessions:
        values = _held(session.values)
        begin = HISTORY_S if len(values) >= length_s + HISTORY_S else 0
        for first in range(begin, len(values) - length_s + 1, length_s):
            own = values[first : first + length_s]
            missing = np.isnan(session.values[first : first + length_s]).mean()
            if (own <= 0).mean() > most_dead or missing > most_dead or np.median(own) <= 0:
                dead += 1
                continue
            scale = rho * top_mbps / float(np.median(own)) if rho else 1.0
            at = int(session.t_s[first] - begin_s)
            windows.append(Window(f"{Path(trace.source).stem}@{at}s", session, first, own * scale, scale, fold))
    return windows, dead


def _held(values: Floats) -> Floats:
    """Return values with the last known one where one is missing."""
    known = np.isfinite(values)
    place = np.maximum.accumulate(np.where(known, np.arange(len(values)), -1))
    return np.where(place >= 0, values[np.maximum(place, 0)], 0.0)


def named_apart(windows: list[Window]) -> list[Window]:
    """Return windows with another name each: traces of one name get numbers."""
    seen: dict[str, int] = {}
    result = []
    for window in windows:
        count = seen[window.trace] = seen.get(window.trace, 0) + 1
        result.append(window if count == 1 else replace(window, trace=f"{window.trace}#{count}"))
    return result
