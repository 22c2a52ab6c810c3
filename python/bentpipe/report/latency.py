"""The report's content about latency under load: sentences, a table, and a chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import printable
from bentpipe.plots import load_test as plots
from bentpipe.plots import style
from bentpipe.plots.style import scheme_name
from bentpipe.report import charts
from bentpipe.report.rows import Column, Count, Row, Value
from bentpipe.report.tables import colour
from bentpipe.runs.latency import idle_and_loaded, latencies
from bentpipe.runs.text import MBIT, mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bentpipe.report.charts import Chart
    from bentpipe.runs.latency import LoadLatency
    from bentpipe.runs.store import Run

COLUMNS = (
    Column("Down", "Mbit/s, all flows"),
    Column("Up", "Mbit/s, all flows"),
    Column("Median RTT", "ms, of pings"),
    Column("p95 RTT", "ms"),
    Column("p99 RTT", "ms"),
    Column("Above path", "ms, median"),
    Column("Above path", "ms, p95"),
    Column("Lost", "% of the pings"),
    Column("RTTs", "per minute"),
    Column("n", "results"),
)

IN_WORDS = {"down": "down", "up": "up", "both": "both ways"}
"""Loads in words."""


def rows(runs: Iterable[Run]) -> list[Row]:
    """Return the table of latencies, under `COLUMNS`: one row per scheme, path and load."""
    every = latencies(runs)
    table = []
    for group in dict.fromkeys(each.group for each in every):
        mine = [each for each in every if each.group == group]
        several = len({each.path for each in mine}) > 1
        table += [
            Row(
                group.scheme,
                len(mine),
                i == 0,
                f"{each.load}, {each.path}" if several else each.load,
                colour(group.scheme),
                _cells(each),
            )
            for i, each in enumerate(mine)
        ]
    return table


def _cells(each: LoadLatency) -> tuple[Value | Count, ...]:
    """Return a cell for each of `COLUMNS`."""
    return (
        Value(each.down_bps, MBIT),
        Value(each.up_bps, MBIT),
        Value(each.rtt_p50_ms),
        Value(each.rtt_p95_ms),
        Value(each.rtt_p99_ms),
        Value(each.excess_p50_ms),
        Value(each.excess_p95_ms),
        Value(each.lost, 100),
        Value(each.rtts_per_min),
        Count(each.n, each.valid, each.runs),
    )


def sentences(label: str, runs: Iterable[Run]) -> list[str]:
    """Compare the pings idle and under the heaviest load, in a sentence for each scheme and path."""
    every = latencies(runs)
    described = []
    for key in dict.fromkeys((each.group, each.path) for each in every):
        mine = [each for each in every if (each.group, each.path) == key]
        idle, loaded = idle_and_loaded(mine)
        if loaded is None or loaded.rtt_p50_ms is None:
            continue
        where = label if len({each.path for each in every}) == 1 else f"{label}, {loaded.path}"
        before = "" if idle is None or idle.rtt_p50_ms is None else f"{mean(idle.rtt_p50_ms)} ms idle and "
        above = (
            ""
            if loaded.excess_p50_ms is None
            else f"; median {mean(loaded.excess_p50_ms)} ms above the path's own RTT at that time"
        )
        flows = [
            f"{mean(bps, MBIT)} Mbit/s {direction}"
            for direction, bps in (("down", loaded.down_bps), ("up", loaded.up_bps))
            if loaded.load in (direction, "both")
        ]
        described.append(
            f"Over {where} with {scheme_name(loaded.group.scheme)}, the median RTT of pings was {before}"
            f"{mean(loaded.rtt_p50_ms)} ms under load {IN_WORDS[loaded.load]} (p95 {mean(loaded.rtt_p95_ms)} ms, "
            f"{mean(loaded.lost, 100)} % lost{above}), at {' and '.join(flows)}."
        )
    return described


def chart(runs: Sequence[Run], most: int) -> Chart:
    """Return the chart of `bentpipe.plots.load_test.plot_load_test`.

    Args:
        runs: Runs with pings, of one controller each, over the same path.
        most: Largest number of points of a line.
    """
    drawn = charts.capacity(runs[0], plots.DIRECTIONS)
    entries = [entry for _, entry, _ in drawn]
    rates = [[line for own, _, line in drawn if own == direction] for direction in plots.DIRECTIONS]
    rtts, lost = [], []
    for i, run in enumerate(runs, len(entries)):
        look = style.look(run.names[0])
        entries.append(charts.Entry(printable(style.legend_name(run.names[0])), look.colour, look.dashes))
        for lines, direction in zip(rates, plots.DIRECTIONS, strict=True):
            at_s, bps = plots.total_goodput(run, direction)
            lines.append(charts.line(i, at_s, bps * 1e-6, most))
        at_s, rtt_ms = plots.ping_rtts(run)
        rtts.append(charts.line(i, at_s, rtt_ms, most))
        lost.append((i, charts.times(at_s[np.isnan(rtt_ms)])))
    down, up = rates
    panels = [
        charts.Panel("Download: goodput of all flows, and capacity, means of 1 s", "Download", "Mbit/s", down),
        charts.Panel("Upload: goodput of all flows, and capacity, means of 1 s", "Upload", "Mbit/s", up),
        charts.Panel("RTT of pings (ticks: lost)", "Pings", "ms", rtts, ticks=lost),
    ]
    marks = charts.marks(runs[0], "down")
    return charts.Chart("time", "Latency under load", entries, panels, runs[0].duration_s, marks)
