"""Series and distributions for figures, computed from a Run's tables by pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bentpipe.experiments.flow_names import is_command
from bentpipe.times import SLOT_PHASE_S, SLOT_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from bentpipe.runs.store import Run

    Floats = NDArray[np.float64]

NEAR_EDGE_S = 0.5
"""Largest distance of a handover from its slot edge [s]. Chosen here: edges are measured at 11.5 to 12.0 s."""


def goodput(samples: pl.DataFrame, flow: int, bin_s: float) -> tuple[Floats, Floats]:
    """Return one flow's goodput in bins of `bin_s`: the middle of each bin [s], bit/s. A partial bin is left out."""
    rows = samples.filter(pl.col("flow") == flow)
    t_s = rows["t_s"].to_numpy()
    received = rows["goodput_bytes"].to_numpy().astype(np.float64)
    if not len(t_s):
        return np.empty(0), np.empty(0)
    # Bins are counted in integers, because 0.1 s is no binary fraction.
    edges = np.arange(int(t_s[-1] / bin_s + 1e-6) + 1) * bin_s
    at_edges = np.interp(edges, np.concatenate([[0.0], t_s]), np.concatenate([[0.0], received]))
    return (edges[:-1] + edges[1:]) / 2, np.diff(at_edges) * 8 / bin_s


def flow_span(run: Run, flow: int) -> tuple[float, float]:
    """Return start and end of a flow [s since the run's start]: the end is its completion, stop, or the run's end."""
    spec, summary = run.record.experiment.flows[flow], run.flows[flow]
    start_s = spec.start_ns / 1e9
    ends = [run.duration_s]
    if spec.stop_ns is not None:
        ends.append(spec.stop_ns / 1e9)
    if summary.get("completed_s") is not None:
        ends.append(start_s + summary["completed_s"])
    return start_s, max(start_s, min(ends))


def flow_goodput(run: Run, flow: int, bin_s: float) -> Floats:
    """Return one flow's goodput [bit/s] in bins of `bin_s` after its warm-up, or from its start if it ended before.

    A partial bin is left out, unless it is the only one.
    """
    start_s, end_s = flow_span(run, flow)
    from_s = start_s + run.warmup_s if start_s + run.warmup_s < end_s else start_s
    return flow_bins(run, flow, bin_s, from_s)[1]


def flow_bins(run: Run, flow: int, bin_s: float, from_s: float | None = None) -> tuple[Floats, Floats]:
    """Return one flow's goodput from `from_s` (None: its start) to its end: the middle of each bin [s], bit/s.

    A partial bin is left out, unless it is the only one.
    """
    rows = run.samples().filter(pl.col("flow") == flow).sort("t_s")
    start_s, end_s = flow_span(run, flow)
    from_s = start_s if from_s is None else from_s
    if not rows.height or end_s <= from_s:
        return np.empty(0), np.empty(0)
    inside = rows.filter((pl.col("t_s") > start_s) & (pl.col("t_s") < end_s))
    t_s = np.concatenate([[start_s], inside["t_s"].to_numpy(), [end_s]])
    # The last row of a flow that closed between two samples has the time of the later one.
    received = np.concatenate([[0], inside["goodput_bytes"].to_numpy(), rows["goodput_bytes"].to_numpy()[-1:]])
    bins = int((end_s - from_s) / bin_s + 1e-6)
    edges = from_s + np.arange(bins + 1) * bin_s if bins else np.array([from_s, end_s])
    at_edges = np.interp(edges, t_s, received.astype(np.float64))
    return (edges[:-1] + edges[1:]) / 2, np.diff(at_edges) * 8 / np.diff(edges)


def values(samples: pl.DataFrame, flow: int, column: str) -> tuple[Floats, Floats]:
    """Return time [s] and value of a column's known values."""
    rows = samples.filter((pl.col("flow") == flow) & pl.col(column).is_not_null())
    return rows["t_s"].to_numpy(), rows[column].to_numpy().astype(np.float64)


def finest_rtt(samples: Iterable[pl.DataFrame]) -> str:
    """Return the column of the RTTs nearest to single packets: a kernel has only a smoothed one."""
    latest = "rtt_latest_ms"
    return latest if any(table[latest].count() for table in samples) else "rtt_smoothed_ms"


def ecdf(sample: Floats) -> tuple[Floats, Floats]:
    """Return the empirical distribution: sorted values, and the share of values at or below each."""
    ordered = np.sort(sample[np.isfinite(sample)])
    return ordered, np.arange(1, len(ordered) + 1) / max(len(ordered), 1)


@dataclass(frozen=True)
class PathSeries:
    """The path under a Run in the direction of its data, summed over the hops in use.

    `backlog_bytes` is the sum of the queues' peak backlogs in each window (`has_peak`); of older Runs, without that
    column, it is the backlog at the window's end. Drops are counts per window by cause, marks over all causes.
    """

    t_s: Floats
    has_peak: bool
    backlog_bytes: Floats
    drops_queue: Floats
    drops_loss: Floats
    drops_event: Floats
    drops_aqm: Floats
    drops_no_route: Floats
    marks: Floats


DROP_CAUSES = ("drops_queue", "drops_loss", "drops_event", "drops_aqm", "drops_no_route")
MARK_CAUSES = ("marks_law", "marks_threshold")


def with_marks(links: pl.DataFrame) -> pl.DataFrame:
    """Add the columns of marks, AQM drops and drops without a route to a Run's `links`, with zeros, if missing."""
    missing = [name for name in ("drops_aqm", "drops_no_route", *MARK_CAUSES) if name not in links.columns]
    return links.with_columns(pl.lit(0, dtype=pl.UInt64).alias(name) for name in missing)


def path_series(links: pl.DataFrame, direction: str) -> PathSeries:
    """Return the path's backlog and drops over time."""
    has_peak = "backlog_max_bytes" in links.columns
    backlog = "backlog_max_bytes" if has_peak else "backlog_bytes"
    hops = (
        with_marks(links)
        .filter((pl.col("flow") < 0) & (pl.col("direction") == direction))
        .sort("profile", "hop", "t_s")
    )
    grown = hops.with_columns(
        (pl.col(name) - pl.col(name).shift(1, fill_value=0).over("profile", "hop")).cast(pl.Float64)
        for name in (*DROP_CAUSES, *MARK_CAUSES)
    )
    rows = (
        grown.group_by("t_s")
        .agg(
            pl.col(backlog).sum(),
            *(pl.col(name).sum() for name in DROP_CAUSES),
            pl.sum_horizontal(MARK_CAUSES).sum().alias("marks"),
        )
        .sort("t_s")
    )

    def column(name: str) -> Floats:
        return rows[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()

    return PathSeries(column("t_s"), has_peak, column(backlog), *map(column, (*DROP_CAUSES, "marks")))


def event_times(events: pl.DataFrame, kind: str) -> Floats:
    """Return the times of events of a kind [s since the run's start]."""
    return np.sort(events.filter(pl.col("kind") == kind)["t_s"].to_numpy().astype(np.float64))


def slot_edges(run: Run, interruptions: Floats) -> Floats:
    """Return slot edges within a Run [s since its start]; none if the path's interruptions are not at slot edges.

    Paths without a 15 s scheduler (fibre, geostationary) have no slots.
    """
    first = (SLOT_PHASE_S - run.start_unix_ns / 1e9) % SLOT_S
    edges = np.arange(first, run.duration_s, SLOT_S)
    if not len(interruptions) or not len(edges):
        return np.empty(0)
    distance = np.abs((interruptions - first + SLOT_S / 2) % SLOT_S - SLOT_S / 2)
    return edges if np.mean(distance <= NEAR_EDGE_S) > 0.5 else np.empty(0)


def by_controller(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """Group Runs of one flow by controller, or by command if a program ran, in order of first occurrence."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if len(run.flows) == 1:
            groups.setdefault(run.scheme if is_command(run.scheme) else run.names[0], []).append(run)
    return groups
