"""The table of means over seeds: one row for each Profile, scheme, world and flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.objects.latency import PING_COLUMNS, ping_columns
from bentpipe.runs.apart import distinguish, experiment_of
from bentpipe.runs.commands import by_command
from bentpipe.runs.estimates import ends, interval_names
from bentpipe.runs.latency import latencies
from bentpipe.runs.summary import left_out, summarise

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from bentpipe.runs import store
    from bentpipe.runs.estimates import Estimate
    from bentpipe.runs.failed import FailedRun
    from bentpipe.runs.summary import FlowSummary, SchemeSummary

Kind = tuple[str, str, str, str]
"""Experiment, Profile's label, scheme, world: Runs that differ in their seeds only."""

ESTIMATES = (
    *("goodput_bps", "whole_run_bps", "share", "rtt_median_ms", "rtt_p95_ms", "retransmits", "completed_s"),
    *("item_median_s", "item_p95_s"),
)
"""Figures of a flow in `RunSet.summary`, each with the ends of its confidence interval."""


def summary_table(runs: Sequence[store.Run], failures: Sequence[FailedRun]) -> pl.DataFrame:
    """Return the table of `RunSet.summary`."""
    import polars as pl

    stored = distinguish(by_command(runs))
    pinged = latencies(stored)
    failed: dict[Kind, int] = {}
    for run in failures:
        kind = _experiment_of(run, stored), run.profile, run.scheme, run.world
        failed[kind] = failed.get(kind, 0) + 1
    rows: list[dict[str, Any]] = []
    for scheme in summarise(stored):
        count = failed.pop(scheme.group[:4], 0)
        for number, flow in enumerate(scheme.flows):
            columns = ping_columns(pinged, scheme.group, flow.path)
            rows.append(_row(scheme, number, flow) | columns | {"failed": count})
    for left in left_out(stored):
        kind = left.experiment, left.profile, left.scheme, left.world
        if left.whole:
            rows.append(_without_figures(kind) | {"runs": left.runs, "failed": failed.pop(kind, 0)})
    rows += [_without_figures(kind) | {"failed": count} for kind, count in failed.items()]
    return pl.DataFrame(rows, schema=_schema(), orient="row")


def _experiment_of(run: FailedRun, stored: Sequence[store.Run]) -> str:
    """Return the name of a failed Run's Experiment as that of others with its settings; there may be no others."""
    if (name := experiment_of(run, stored)) is not None:
        return name
    is_taken = any(each.experiment == run.experiment for each in stored)
    return f"{run.experiment} · other settings" if is_taken else run.experiment


def _without_figures(kind: Kind) -> dict[str, Any]:
    """Return the row of a scheme without a valid Run."""
    experiment, profile, scheme, world = kind
    names = {"profile": profile, "scheme": scheme, "experiment": experiment, "world": world}
    return dict.fromkeys(_schema()) | names | dict.fromkeys(("n", "valid", "runs", "failed"), 0)


def _row(scheme: SchemeSummary, number: int, flow: FlowSummary) -> dict[str, Any]:
    row: dict[str, Any] = {"profile": scheme.profile, "scheme": scheme.scheme, "controller": flow.controller}
    for name in ESTIMATES:
        row |= ends(name, _figure(flow, name))
    start = flow.start_up
    row["time_to_90_s"] = None if start.time_to_90_s is None else start.time_to_90_s.mean
    row["overshoot"] = None if start.overshoot is None else start.overshoot.mean
    row["jain"] = None if scheme.jain is None else scheme.jain.mean
    counts = {"n": scheme.n, "valid": scheme.valid, "runs": scheme.runs}
    return {
        **row,
        "experiment": scheme.experiment,
        "world": scheme.group.world,
        "flow": number,
        "direction": flow.direction,
        "path": flow.path,
        **counts,
    }


def _figure(flow: FlowSummary, name: str) -> Estimate | None:
    """Return a figure of `ESTIMATES`; items of several kinds have none."""
    if not name.startswith("item_"):
        figure: Estimate | None = getattr(flow, name)
        return figure
    return getattr(flow.items[0], name.removeprefix("item_")) if len(flow.items) == 1 else None


def _schema() -> dict[str, type[pl.DataType]]:
    import polars as pl

    schema: dict[str, type[pl.DataType]] = dict.fromkeys(("profile", "scheme", "controller"), pl.String)
    for name in ESTIMATES:
        schema |= dict.fromkeys((name, *interval_names(name)), pl.Float64)
    schema |= dict.fromkeys(("time_to_90_s", "overshoot", "jain"), pl.Float64)
    schema |= {"experiment": pl.String, "world": pl.String, "flow": pl.Int64, "direction": pl.String, "path": pl.String}
    schema |= dict.fromkeys(PING_COLUMNS, pl.Float64)
    return schema | dict.fromkeys(("n", "valid", "runs", "failed"), pl.Int64)
