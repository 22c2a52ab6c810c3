"""Latency under load: pings and goodput of each load of a path, over the seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.runs.estimates import Estimate, estimate
from bentpipe.runs.summary import Group, counted, group_runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl

    from bentpipe.runs.store import Run

LOADS = ("idle", "down", "up", "both")
"""Loads of a path: flows in no direction, in one, in both; from the lightest to the heaviest."""


@dataclass(frozen=True)
class LoadLatency:
    """Pings and goodput of a scheme while one path had one load.

    `lost` is the share of the pings that were lost, of those lost or answered; `down_bps` and `up_bps` are the goodput
    of all flows together. `excess_p50_ms` and `excess_p95_ms` are of the excess of each ping's RTT over that of a lone
    packet on the path at the same time: unlike RTTs they can be compared between loads, which follow each other.
    `valid` of the scheme's `runs` were valid, and `n` of those count, as in a `SchemeSummary`. None: no ping was
    answered.
    """

    group: Group
    path: str
    load: str
    n: int
    valid: int
    runs: int
    rtt_p50_ms: Estimate | None
    rtt_p95_ms: Estimate | None
    rtt_p99_ms: Estimate | None
    excess_p50_ms: Estimate | None
    excess_p95_ms: Estimate | None
    lost: Estimate | None
    rtts_per_min: Estimate | None
    down_bps: Estimate
    up_bps: Estimate


def latencies(runs: Iterable[Run]) -> list[LoadLatency]:
    """Return one summary per Experiment, Profile, scheme, world, path and load, of Runs with pings.

    Pings over one path are those of the Experiment's first `[[pings]]` on it. Invalid Runs count only in `runs`.
    """
    summaries = []
    for group, every in group_runs(runs).items():
        results = counted(every)
        if not results:
            continue
        valid = sum(run.record.valid for run in every)
        counts = len(results), valid, len(every)
        summaries += [
            _summary(group, path, load, figures, counts)
            for path in dict.fromkeys(pings["profile"] for pings in results[0].pings)
            for load in LOADS
            if (figures := _figures(results, path, load))
        ]
    return summaries


def idle_and_loaded(summaries: Sequence[LoadLatency]) -> tuple[LoadLatency | None, LoadLatency | None]:
    """Return the idle summary and that of the heaviest load among those of one scheme and path; None: there is none."""
    by_load = {each.load: each for each in summaries}
    loaded = [by_load[load] for load in LOADS[1:] if load in by_load]
    return by_load.get("idle"), loaded[-1] if loaded else None


def pings(run: Run) -> pl.DataFrame:
    """Return the pings of a Run: `t_s` (sent, since the run began), `path`, `rtt_ms` and `lost`.

    Pings that were still on their way at the end have no row. Without pings the table is empty.
    """
    import polars as pl

    flows, paths = len(run.record.experiment.flows), [each.profile for each in run.record.experiment.pings]
    items = run.applications()
    schema = {"t_s": pl.Float64, "path": pl.String, "rtt_ms": pl.Float64, "lost": pl.Boolean}
    if items is None or not paths:
        return pl.DataFrame(schema=schema)
    own = items.filter(pl.col("flow") >= flows)
    numbers = (own["flow"].cast(pl.Int64) - flows).to_list()
    return own.select(
        t_s="start_s",
        path=pl.Series([paths[number] for number in numbers], dtype=pl.String),
        rtt_ms=(pl.col("completed_s") - pl.col("start_s")) * 1e3,
        lost=pl.col("completed_s").is_null(),
    ).sort("path", "t_s", maintain_order=True)


def _figures(runs: Sequence[Run], path: str, load: str) -> list[dict[str, Any]]:
    """Return the figures of a load in each Run in which it occurred."""
    figures: list[dict[str, Any]] = []
    for run in runs:
        mine = next((pings["loads"] for pings in run.pings if pings["profile"] == path), [])
        figures += [dict(each) for each in mine if each["load"] == load]
    return figures


def _summary(
    group: Group, path: str, load: str, figures: Sequence[dict[str, Any]], counts: tuple[int, int, int]
) -> LoadLatency:
    def known(name: str) -> Estimate | None:
        values = [float(each[name]) for each in figures if each.get(name) is not None]
        return estimate(values) if values else None

    n, valid, runs = counts
    ended = [(each["lost"], each["sent"] - each.get("in_flight", 0)) for each in figures]
    shares = [lost / n for lost, n in ended if n]
    return LoadLatency(
        group=group,
        path=path,
        load=load,
        n=n,
        valid=valid,
        runs=runs,
        rtt_p50_ms=known("rtt_p50_ms"),
        rtt_p95_ms=known("rtt_p95_ms"),
        rtt_p99_ms=known("rtt_p99_ms"),
        excess_p50_ms=known("excess_p50_ms"),
        excess_p95_ms=known("excess_p95_ms"),
        lost=estimate(shares, ceiling=1.0) if shares else None,
        rtts_per_min=known("rtts_per_min"),
        down_bps=estimate([each["down_bps"] for each in figures]),
        up_bps=estimate([each["up_bps"] for each in figures]),
    )
