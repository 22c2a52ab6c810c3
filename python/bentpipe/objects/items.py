"""Table of the items of applications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.runs.estimates import ends, interval_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

    from bentpipe.runs.summary import SchemeSummary

ESTIMATES = ("items", "completed", "median_s", "p95_s")
"""Figures of the items of a kind, each with the ends of its confidence interval."""


def items_table(summaries: Iterable[SchemeSummary]) -> pl.DataFrame:
    """Return one row for each flow and kind of its items."""
    import polars as pl

    names = ("profile", "scheme", "controller", "kind")
    schema: dict[str, type[pl.DataType]] = dict.fromkeys(names, pl.String)
    for name in ESTIMATES:
        schema |= dict.fromkeys((name, *interval_names(name)), pl.Float64)
    schema |= {"experiment": pl.String, "world": pl.String, "flow": pl.Int64, "direction": pl.String, "n": pl.Int64}
    rows: list[dict[str, Any]] = []
    for scheme in summaries:
        for number, flow in enumerate(scheme.flows):
            for each in flow.items:
                named = scheme.profile, scheme.scheme, flow.controller, each.kind
                row: dict[str, Any] = dict(zip(names, named, strict=True))
                for name in ESTIMATES:
                    row |= ends(name, getattr(each, name))
                row |= {"experiment": scheme.experiment, "world": scheme.group.world}
                rows.append({**row, "flow": number, "direction": flow.direction, "n": scheme.n})
    return pl.DataFrame(rows, schema=schema, orient="row")
