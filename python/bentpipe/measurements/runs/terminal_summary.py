"""Summary of a measured Run for the terminal: notes, tables, and suggested commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from os import PathLike
from typing import Any

import polars as pl

from bentpipe.analysis.tables import KEYS
from bentpipe.measurements.runs.counts import count_probes
from bentpipe.measurements.runs.imports import Imported
from bentpipe.measurements.runs.store import MeasuredRun
from bentpipe.times import format_utc

Rows = list[dict[str, Any]]

#: Most series in a table; chosen here: one screen.
MOST_SERIES = 20
#: Table → a command that analyses it.
_COMMANDS: Mapping[str, str] = {
    "probes": "bentpipe analyze handovers {out} --plot",
    "hops": "bentpipe analyze path {out} --plot",
    "samples": "bentpipe analyze throughput {out} --plot",
    "dish_samples": "bentpipe analyze orientation {out} --plot",
}


def notes_of(imported: Imported) -> list[str]:
    """Return the notes on missing facts and assumptions, each once with the names of its files."""
    sources: dict[str, list[str]] = {}
    for part in imported.parts:
        for line in part.source.notes:
            sources.setdefault(line, []).append(part.source.name)
    if len(imported.parts) == 1:
        return list(sources)
    return [
        f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {line}" for line, names in sources.items()
    ]


def rows_of(run: MeasuredRun) -> list[tuple[str, Rows]]:
    """Return the tables for a terminal, each with a title and rows."""
    tables = [("sources", _sources(run))]
    if (probes := run.scan("probes")) is not None:
        tables.append(("probes [ms]", _probes(run, probes)))
    for name, value, unit, scale, by in (
        ("samples", pl.coalesce("goodput_bps", "sent_bps"), "Mbit/s", 1e-6, ["source", "direction"]),
        ("links", pl.col("capacity_bps"), "Mbit/s", 1e-6, ["source", "direction"]),
        ("links", pl.col("delay_ms"), "ms", 1.0, ["source", "direction"]),
        ("dish_samples", pl.col("pop_ping_latency_ms").cast(pl.Float64), "ms", 1.0, ["device_id"]),
    ):
        if (table := run.scan(name)) is not None:
            rows = _quantiles(table, value * scale, by)
            if rows:
                tables.append((f"{name} [{unit}]", rows))
    if (hops := run.scan("hops")) is not None:
        counted = hops.select(
            pl.struct("probe", "target", "unix_ns").n_unique().alias("traceroutes"),
            pl.col("address").count().alias("answers"),
            pl.col("address").is_null().sum().alias("unanswered"),
        )
        tables.append(("hops", counted.collect().to_dicts()))
    return tables


def next_commands(run: MeasuredRun, out: str | PathLike[str]) -> list[str]:
    """Return commands that analyse the tables of the Run."""
    place = shlex.quote(str(out))
    lines = [line.format(out=place) for name, line in _COMMANDS.items() if name in run.tables]
    if (probes := run.scan("probes")) is not None:
        series = probes.select(KEYS).unique(maintain_order=True).collect()
        # The fewest options that select the first series.
        for key in KEYS:
            if series[key].n_unique() > 1:
                lines[0] += f" --{key} {shlex.quote(str(series[key][0]))}"
                series = series.filter(pl.col(key).eq_missing(pl.lit(series[key][0])))
    return lines


def _sources(run: MeasuredRun) -> Rows:
    return [
        {"source": source.name, "format": source.format, "bytes": source.bytes, "clock": source.clock}
        for source in run.record.sources[:MOST_SERIES]
    ]


def _probes(run: MeasuredRun, probes: pl.LazyFrame) -> Rows:
    """Return one row per series; a single series is taken from the summary."""
    keys = probes.select("target", "kind").unique().sort("target", "kind").collect()
    first = int(probes.select(pl.col("unix_ns").first()).collect().item())  # may differ from the start of the Run
    rows = []
    for target, kind in keys.head(MOST_SERIES).iter_rows():
        if keys.height == 1:
            counts: Mapping[str, Any] = run.summary
        else:
            counts = count_probes(probes.filter(target=target, kind=kind).collect())
        rtt_ms = counts["rtt_ms"]
        rows.append(
            {
                "target": target,
                "kind": kind,
                "from": format_utc(first // 10**9 * 10**9) if keys.height == 1 else None,
                "span_s": counts["span_s"],
                "probes": counts["probes"],
                "lost": counts["lost"],
                "loss": None if counts["loss"] is None else f"{100 * counts['loss']:.2f} %",
                "duplicates": counts["duplicates"],
                "out_of_order": counts["out_of_order"],
                "clock_jumps": counts.get("clock_jumps"),
                "gaps": counts["gaps"],
                **{name: rtt_ms[name] for name in ("min", "median", "p95", "p99", "max")},
            }
        )
    return (
        rows
        if keys.height == 1
        else [{k: v for k, v in row.items() if k not in ("from", "clock_jumps")} for row in rows]
    )


def _quantiles(table: pl.LazyFrame, value: pl.Expr, by: list[str]) -> Rows:
    levels = {"min": 0.0, "median": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    quantiles = (
        table.with_columns(value.alias("value"))
        .filter(pl.col("value").is_not_null())
        .group_by(by)
        .agg(
            pl.len().alias("rows"),
            *(pl.col("value").quantile(level, "linear").round(3).alias(name) for name, level in levels.items()),
        )
        .sort(by)
        .head(MOST_SERIES)
    )
    return quantiles.collect().to_dicts()
