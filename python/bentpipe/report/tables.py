"""Rows of the report's tables, computed from Runs and their summaries over seeds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.experiments.flow_names import flow_parts, is_command
from bentpipe.plots import series
from bentpipe.plots.series import DROP_CAUSES, MARK_CAUSES, with_marks
from bentpipe.plots.style import look
from bentpipe.report import path
from bentpipe.report.rows import Column, Count, ItemCount, Limits, Losses, Reached, Row, RunLine, Seed, SeedTable, Value
from bentpipe.runs.memory import MemoryRun
from bentpipe.runs.summary import counted, flows_together, group_runs
from bentpipe.runs.text import MBIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bentpipe.report.place import Place
    from bentpipe.report.rows import Cell
    from bentpipe.runs.store import Run
    from bentpipe.runs.summary import FlowSummary, LeftOut, SchemeSummary

RESULT_COLUMNS = (
    Column("Goodput", "Mbit/s"),
    Column("Whole run", "Mbit/s"),
    Column("Share", "% of its direction"),
    Column("Median RTT", "ms"),
    Column("p95 RTT", "ms"),
    Column("Retransmits", "segments a run"),
    Column("Completed in", "s"),
    Column("Items", "by kind"),
    Column("Median item", "ms"),
    Column("p95 item", "ms"),
    Column("n", "results"),
)

START_UP_COLUMNS = (
    Column("Time to 90 %", "s"),
    Column("Overshoot", "× steady in flight"),
    Column("Retransmits", "segments a run"),
    Column("Reached 90 %", "runs"),
)

LIMITS = ("cwnd_limited_s", "receiver_limited_s", "sender_limited_s")
"""Columns of `samples` with the time limited by each factor, in the order of the fields of `rows.Limits`."""


def results(
    summaries: Sequence[SchemeSummary], left: Sequence[LeftOut], columns: Sequence[Column]
) -> tuple[list[Column], list[Row]]:
    """Return the table of results without empty columns; schemes of `left` have rows without values."""
    rows = _rows(summaries, left, columns, _result_cells)
    filled = [i for i in range(len(columns)) if any(row.cells[i] is not None for row in rows if row.counts)]
    return [columns[i] for i in filled], [replace(row, cells=tuple(row.cells[i] for i in filled)) for row in rows]


def start_up(summaries: Sequence[SchemeSummary], left: Sequence[LeftOut]) -> list[Row]:
    """Return the table of start-ups, under `START_UP_COLUMNS`."""
    return _rows(summaries, left, START_UP_COLUMNS, _start_up_cells)


def _rows(
    summaries: Sequence[SchemeSummary],
    left: Sequence[LeftOut],
    columns: Sequence[Column],
    cells: Callable[[SchemeSummary, FlowSummary], list[tuple[Cell, ...]]],
) -> list[Row]:
    rows = []
    for summary in summaries:
        mine = [
            (flow_name(flow, summary) if part == 0 else "", colour(flow.controller), row)
            for flow in summary.flows
            for part, row in enumerate(cells(summary, flow))
        ]
        rows += [Row(summary.scheme, len(mine), i == 0, *each) for i, each in enumerate(mine)]
    for each in left:
        nothing: tuple[Cell, ...] = (*[Value(None)] * (len(columns) - 1), Count(0, 0, each.runs))
        controllers = flow_parts(each.scheme)
        rows += [
            Row(each.scheme, len(controllers), i == 0, controller, colour(controller), nothing, counts=False)
            for i, controller in enumerate(controllers)
        ]
    return rows


def flow_name(flow: FlowSummary, summary: SchemeSummary) -> str:
    """Return a flow's name: its controller, with its number of flows, direction and start where others differ."""
    directions = {each.direction for each in summary.flows}
    alike = [each for each in summary.flows if (each.controller, each.direction) == (flow.controller, flow.direction)]
    has_start = flow.count > 1 and len(alike) > 1
    words = [f"{flow.count} ×" if flow.count > 1 else "", flow.controller]
    words += [flow.direction if len(directions) > 1 else "", f"from {flow.start_s:g} s" if has_start else ""]
    return " ".join(filter(None, words))


def colour(controller: str) -> str:
    """Return a controller's colour in tables and figures, as ``#rrggbb``."""
    return look(controller).colour


def _result_cells(summary: SchemeSummary, flow: FlowSummary) -> list[tuple[Cell, ...]]:
    """Return cells for `RESULT_COLUMNS`: a row of the flow, and one for each further kind of its items."""
    count = Count(summary.n, summary.valid, summary.runs)
    own = (
        Value(flow.goodput_bps, MBIT),
        Value(flow.whole_run_bps, MBIT),
        Value(flow.share, 100) if flow.share else None,
        Value(flow.rtt_median_ms),
        Value(flow.rtt_p95_ms),
        Value(flow.retransmits),
        Value(flow.completed_s) if flow.completed_s else None,
    )
    nothing: tuple[Cell, ...] = (None, None, None)
    items: list[tuple[Cell, ...]] = [
        (ItemCount(each), Value(each.median_s, 1e3), Value(each.p95_s, 1e3)) for each in flow.items
    ]
    first, *others = items or [nothing]
    return [(*own, *first, count), *((*(None,) * len(own), *each, count) for each in others)]


def _start_up_cells(summary: SchemeSummary, flow: FlowSummary) -> list[tuple[Cell, ...]]:
    """Return a cell for each of `START_UP_COLUMNS`.

    Student's t supposes normal values. Those of a start-up are truncated at the warm-up and widely spread.
    """
    start = flow.start_up
    return [
        (
            Value(start.time_to_90_s, spread="extremes"),
            Value(start.overshoot, spread="extremes"),
            Value(start.retransmits, spread="extremes"),
            Reached(start.reached, summary.n),
        )
    ]


def _counted_runs(runs: Iterable[Run]) -> Iterator[Run]:
    """Yield the Runs that the table of results counts."""
    for group in group_runs(runs).values():
        yield from counted(group)


def limits(
    factors: Mapping[tuple[str, int, str], Sequence[float]],
    left: Iterable[LeftOut],
    summaries: Iterable[SchemeSummary] = (),
) -> list[Limits]:
    """Return the table of `limiting_factors`, with the names of `summaries` of the same flows.

    Schemes of `left` have rows without values.
    """
    names = {(each.scheme, i): flow_name(flow, each) for each in summaries for i, flow in enumerate(each.flows)}
    rows = [
        Limits(scheme, names.get((scheme, i), controller), colour(controller), *shares)
        for (scheme, i, controller), shares in factors.items()
    ]
    return rows + [
        Limits(each.scheme, controller, colour(controller)) for each in left for controller in flow_parts(each.scheme)
    ]


def limiting_factors(runs: Iterable[Run], *, together: bool = False) -> dict[tuple[str, int, str], list[float]]:
    """Return by scheme, flow and controller the share of each of `LIMITS` in its limited time [%], mean over runs.

    `together`: flows of one controller, direction and time are one flow.
    """
    by_flow: dict[tuple[str, int, str], list[list[float]]] = {}
    for run in _counted_runs(runs):
        samples, names = run.samples(), run.names
        for place, numbers in enumerate(flows_together(run) if together else [(i,) for i in range(len(names))]):
            for i in numbers:
                times = [series.values(samples, i, column)[1].max(initial=0.0) for column in LIMITS]
                shares = [100 * time / (sum(times) or 1.0) for time in times]
                by_flow.setdefault((run.scheme, place, names[i]), []).append(shares)
    return {flow: [sum(each) / len(each) for each in zip(*shares, strict=True)] for flow, shares in by_flow.items()}


def losses(runs: Iterable[Run], left: Iterable[LeftOut]) -> list[Losses]:
    """Return the packets dropped and marked by scheme; schemes of `left` have rows without values."""
    counts: dict[str, list[list[float]]] = {}
    for run in _counted_runs(runs):
        totals = (
            with_marks(run.links())
            .filter((pl.col("flow") < 0) & pl.col("direction").is_in(path.directions([run])))
            .group_by("profile", "hop", "direction")
            .agg(pl.col(cause).max() for cause in (*DROP_CAUSES, *MARK_CAUSES))
        )
        drops = [float(totals[cause].sum()) for cause in DROP_CAUSES]
        marks = float(sum(totals[cause].sum() for cause in MARK_CAUSES))
        counts.setdefault(run.scheme, []).append([*drops, marks])
    rows = [
        Losses(scheme, *(sum(each) / len(each) for each in zip(*values, strict=True)))
        for scheme, values in counts.items()
    ]
    return rows + [Losses(each.scheme) for each in left]


def run_line(place: Place, run: Run) -> RunLine:
    """Return a Run's line in the list of Runs."""
    return RunLine(
        scheme=run.scheme,
        seed=run.seed,
        begins_unix_ns=run.start_unix_ns,
        valid=bool(run.record.valid),
        why_invalid=str(run.record.why_invalid or ""),
        content_hash=str(run.record.content_hash),
        folder="" if isinstance(run, MemoryRun) else place.link(run.path),
    )


def by_seed(runs: Sequence[Run]) -> SeedTable:
    """Return goodput by seed and scheme; empty if there is only one seed."""
    schemes = tuple(dict.fromkeys(run.scheme for run in runs))
    valid = {(run.seed, run.scheme): run for run in runs if run.record.valid}
    seeds = sorted({seed for seed, _ in valid})
    if len(seeds) < 2 or is_command(runs[0].scheme):  # several Runs of a command may have the same seed
        return SeedTable()

    def goodput_bps(run: Run | None) -> tuple[float, ...] | None:
        return None if run is None else tuple(float(flow["goodput_bps"]) for flow in run.flows)

    rows = [Seed(seed, tuple(goodput_bps(valid.get((seed, scheme))) for scheme in schemes)) for seed in seeds]
    return SeedTable(schemes, tuple(rows))
