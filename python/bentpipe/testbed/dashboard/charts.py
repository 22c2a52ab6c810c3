"""Charts: what the charts' script draws, and the same numbers as a table for those who do not see it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.schemas.experiment_views import RunView
    from bentpipe.testbed.schemas.figures import SmallFigure

SPARK_WIDTH, SPARK_HEIGHT = 120, 26
"""Size of a small figure."""
MOST_NODES = 6
"""Nodes with lines in a figure."""


@dataclass(frozen=True)
class Chart:
    """A chart over time.

    Attributes:
        title: Title.
        unit: Unit of its values.
        at_ms: Times [ms since 1970].
        series: Label and values of each line; None: no value at that time.
        joins: Whether lines go on over such times: those are times of other nodes.
    """

    title: str
    unit: str
    at_ms: tuple[int, ...]
    series: tuple[tuple[str, tuple[float | None, ...]], ...]
    joins: bool = False

    def data(self) -> dict[str, Any]:
        """Return what the script needs."""
        labels = [label for label, _ in self.series]
        values = [list(each) for _, each in self.series]
        times = [at_ms / 1000 for at_ms in self.at_ms]
        data = {"title": self.title, "unit": self.unit, "labels": labels, "values": [times, *values]}
        return data | ({"joins": True} if self.joins else {})

    def latest(self) -> list[tuple[str, float | None]]:
        """Return the newest value of each line."""
        return [
            (label, next((each for each in reversed(values) if each is not None), None))
            for label, values in self.series
        ]


def result_charts(runs: Sequence[RunView], durations_s: dict[str, float]) -> list[Chart]:
    """Return the figures of an experiment's results over time: bytes, mean rate, duration, preemptions.

    Args:
        runs: Runs, oldest first.
        durations_s: Id of a run → how long it ran [s].
    """
    ended = [run for run in runs if run.state in ("done", "failed", "preempted")]
    if not ended:
        return []
    at_ms = tuple(run.start_at_ms for run in ended)
    lasted = tuple(durations_s.get(run.id) for run in ended)

    def rates(values: Sequence[int]) -> tuple[float | None, ...]:
        return tuple(size * 8 / time_s if time_s else None for size, time_s in zip(values, lasted, strict=True))

    down, up = [run.down_bytes for run in ended], [run.up_bytes for run in ended]
    count, preempted = 0, []
    for run in ended:
        count += run.state == "preempted"
        preempted.append(float(count))
    charts = [
        Chart("Bytes of each run", "B", at_ms, (("received", tuple(map(float, down))), ("sent", tuple(map(float, up)))))
    ]
    if any(lasted):
        charts.append(Chart("Mean rate of each run", "bit/s", at_ms, (("received", rates(down)), ("sent", rates(up)))))
        charts.append(Chart("Duration of each run", "s", at_ms, (("duration", lasted),)))
    charts.append(Chart("Preemptions so far", "", at_ms, (("preempted runs", tuple(preempted)),)))
    nodes = [run.node for run in ended]
    return [*(by_node(chart, nodes) for chart in charts[:-1]), charts[-1]]


def by_node(chart: Chart, nodes: Sequence[str]) -> Chart:
    """Return a chart with a line for each node, of one whose values are of several.

    Args:
        chart: Chart.
        nodes: Node of each time.

    Example:
        >>> chart = Chart("RTT", "ms", (1, 2), (("median", (40.0, 60.0)),))
        >>> by_node(chart, ["attic", "barn"]).series
        (('attic, median', (40.0, None)), ('barn, median', (None, 60.0)))
    """
    names = sorted(set(nodes))
    if len(names) < 2:
        return chart
    series = tuple(
        (f"{name}, {label}", tuple(value if node == name else None for node, value in zip(nodes, values, strict=True)))
        for name in names[:MOST_NODES]
        for label, values in chart.series
    )
    return replace(chart, series=series, joins=True)


def figure_charts(runs: Sequence[RunView], small: Sequence[SmallFigure]) -> list[Chart]:
    """Return a chart of the medians and 95th percentiles of runs over time for each kind of small figure."""
    starts = {run.id: run.start_at_ms for run in runs}
    nodes = {run.id: run.node for run in runs}
    kinds: dict[tuple[str, str], list[SmallFigure]] = {}
    for each in small:
        if each.run in starts:
            kinds.setdefault((each.title, each.unit), []).append(each)
    return [
        by_node(
            Chart(
                f"{title} of each run",
                unit,
                tuple(starts[each.run] for each in group),
                (("median", tuple(each.median for each in group)), ("p95", tuple(each.p95 for each in group))),
            ),
            [nodes[each.run] for each in group],
        )
        for (title, unit), group in list(kinds.items())[:4]
    ]


def spark_points(small: SmallFigure) -> list[str]:
    """Return the points of a small figure for SVG, from its smallest to its largest value, one text for each line."""
    known = [each for each in small.spark if each is not None]
    if len(known) < 2:
        return []
    low, span = min(known), (max(known) - min(known)) or 1.0
    step = SPARK_WIDTH / (len(small.spark) - 1)
    lines: list[list[str]] = [[]]
    for number, value in enumerate(small.spark):
        if value is None:
            lines.append([])
        else:
            height = (SPARK_HEIGHT - 2) * (1 - (value - low) / span) + 1
            lines[-1].append(f"{number * step:.1f},{height:.1f}")
    return [" ".join(each) for each in lines if len(each) > 1]
