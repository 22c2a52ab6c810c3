"""Tables of latency under load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.runs.estimates import ends, interval_names
from bentpipe.runs.latency import idle_and_loaded

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from bentpipe.runs.latency import LoadLatency
    from bentpipe.runs.summary import Group

ESTIMATES = (
    *("rtt_p50_ms", "rtt_p95_ms", "rtt_p99_ms", "excess_p50_ms", "excess_p95_ms", "lost", "rtts_per_min"),
    *("down_bps", "up_bps"),
)
"""Figures of a load, each with the ends of its confidence interval."""

PING_COLUMNS = tuple(
    column for name in ("ping_idle_ms", "ping_loaded_ms", "ping_lost") for column in (name, *interval_names(name))
)
"""Columns of `RunSet.summary` about the pings over a flow's path."""


def ping_columns(every: Sequence[LoadLatency], group: Group, path: str | None) -> dict[str, float | None]:
    """Return `PING_COLUMNS` of a flow: of the pings over its path, idle and under the heaviest load."""
    idle, loaded = idle_and_loaded([each for each in every if each.group == group and each.path == path])
    return {
        **ends("ping_idle_ms", None if idle is None else idle.rtt_p50_ms),
        **ends("ping_loaded_ms", None if loaded is None else loaded.rtt_p50_ms),
        **ends("ping_lost", None if loaded is None else loaded.lost),
    }


def latency_table(every: Sequence[LoadLatency]) -> pl.DataFrame:
    """Return one row for each summary."""
    import polars as pl

    schema: dict[str, type[pl.DataType]] = dict.fromkeys(("profile", "scheme", "path", "load"), pl.String)
    for name in ESTIMATES:
        schema |= dict.fromkeys((name, *interval_names(name)), pl.Float64)
    schema |= dict.fromkeys(("experiment", "world"), pl.String) | dict.fromkeys(("n", "valid", "runs"), pl.Int64)
    return pl.DataFrame([_row(each) for each in every], schema=schema, orient="row")


def _row(each: LoadLatency) -> dict[str, Any]:
    group = each.group
    row: dict[str, Any] = {
        "profile": group.profile,
        "scheme": group.scheme,
        "path": each.path,
        "load": each.load,
    }
    for name in ESTIMATES:
        row |= ends(name, getattr(each, name))
    counts = {"n": each.n, "valid": each.valid, "runs": each.runs}
    return {**row, "experiment": group.experiment, "world": group.world, **counts}
