"""Data of the interactive figures: lines over time and CDFs as numbers, thinned to what a screen shows.

A line has at most `most` points. A longer one is divided into equal times, and the smallest and the largest value of
each are kept in their order: no peak is lost, but its time is exact only to such a time. Numbers have four significant
digits.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from bentpipe.errors import printable
from bentpipe.plots import series, style
from bentpipe.plots.distributions import RTT_TITLES, steady
from bentpipe.plots.timeline import BIN_S
from bentpipe.plots.worlds import delays_with_gaps
from bentpipe.runs.path import raced_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bentpipe.plots.series import Floats
    from bentpipe.profiles.table import Direction
    from bentpipe.runs.store import Run

MOST_POINTS = 2400
"""Largest number of points of a line: an extreme in each dot of a wide screen. Chosen here."""

FEWEST_POINTS = 300
"""A line of a large page is not thinned below this. Chosen here."""

PAGE_POINTS = 240_000
"""Largest number of points of a page's lines over time, as far as `FEWEST_POINTS` allows: about 1.5 MB."""

DIGITS = 4
"""Significant digits of a number in a chart."""

TIME_DIGITS = 3
"""Decimals of a time [s]."""


@dataclass(frozen=True)
class Line:
    """A line of one entry of the legend.

    `x` are the abscissae, or start and step of regular ones (`regular`). In a CDF, `y` are the values at equally spaced
    shares from 0 to 1, and `x` is empty. None: a gap.
    """

    entry: int
    y: list[float | None]
    x: list[float]
    regular: bool = False
    step: bool = False


@dataclass(frozen=True)
class Panel:
    """A panel: title, unit of its values, lines; `from_zero`: its axis begins at 0.

    `ticks` are times of tail drops by legend entry, drawn above the lines.
    """

    title: str
    short: str
    unit: str
    lines: list[Line]
    from_zero: bool = True
    ticks: list[tuple[int, list[float]]] = field(default_factory=list)


@dataclass(frozen=True)
class Entry:
    """An entry of the legend. `absent`: it has no valid Run, and so no line."""

    name: str
    colour: str
    dashes: tuple[float, ...] = ()
    absent: bool = False


@dataclass(frozen=True)
class Marks:
    """The path over time [s]: handovers, slot edges, spans without a path, of random loss, of a serving satellite."""

    handovers: list[float]
    slots: list[float]
    outages: list[tuple[float, float]]
    loss: list[tuple[float, float]]
    serving: list[tuple[float, float, str]]


@dataclass(frozen=True)
class Chart:
    """Panels with one legend: over time (their x axes zoom together), or CDFs (each has its own x axis)."""

    kind: Literal["time", "cdf"]
    title: str
    entries: list[Entry]
    panels: list[Panel]
    end: float = 1.0
    marks: Marks | None = None

    def to_json(self) -> str:
        """Return the chart as JSON that may stand in a script element: ``<``, ``>`` and ``&`` are escaped."""
        text = json.dumps(asdict(self), separators=(",", ":"), allow_nan=False)
        return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def points_per_line(lines: int) -> int:
    """Return the largest number of points of a line on a page with so many lines over time."""
    return max(FEWEST_POINTS, min(MOST_POINTS, PAGE_POINTS // max(lines, 1)))


def thin(x: Floats, y: Floats, most: int) -> tuple[Floats, Floats]:
    """Return at most `most` points with every extreme: the smallest and the largest value of equal spans of x.

    Args:
        x: Abscissae, increasing; shape (n,).
        y: Values, NaN: a gap; shape (n,).
        most: Largest number of points, 2 or more.

    Returns:
        The same arrays if they are short enough; else regular abscissae and two values for each span, in their order.

    Example:
        >>> import numpy as np
        >>> x, y = thin(np.arange(8.0), np.array([0.0, 9, 1, 1, 1, 1, -7, 1]), most=4)
        >>> y.tolist()
        [0.0, 9.0, 1.0, -7.0]
    """
    if len(x) <= most:
        return x, y
    spans = most // 2
    width = (x[-1] - x[0]) / spans
    if not width > 0:
        return x[:1], y[:1]
    at = np.minimum(((x - x[0]) / width).astype(int), spans - 1)
    thinned = np.full((spans, 2), np.nan)
    known = np.flatnonzero(np.isfinite(y))
    # Sorted by span and value: the first of a span is its smallest, the last its largest.
    order = known[np.lexsort((y[known], at[known]))]
    span, first = np.unique(at[order], return_index=True)
    last = np.append(first[1:], len(order))[: len(first)] - 1
    low, high = order[first], order[last]
    thinned[span, 0] = y[np.minimum(low, high)]
    thinned[span, 1] = y[np.maximum(low, high)]
    return x[0] + (np.arange(2 * spans) + 0.5) * width / 2, thinned.ravel()


def line(entry: int, x: Floats, y: Floats, most: int = MOST_POINTS, *, step: bool = False) -> Line:
    """Return a line of a chart, thinned and rounded."""
    x, y = thin(x, y, most)
    if len(x) > 2 and np.ptp(np.diff(x)) < 2 * 10**-TIME_DIGITS and np.diff(x)[0] > 0:
        spacing = (x[-1] - x[0]) / (len(x) - 1)
        if np.abs(x[0] + spacing * np.arange(len(x)) - x).max() < 10**-TIME_DIGITS:
            return Line(entry, _rounded(y), [_significant(x[0]), float(f"{spacing:.9g}")], regular=True, step=step)
    return Line(entry, _rounded(y), times(x), step=step)


def timeline(runs: Sequence[Run], most: int, absent: Sequence[str] = ()) -> Chart:
    """Return the chart of `bentpipe.plots.timeline.plot_timeline`: goodput, cwnd, RTT and backlog over time.

    Args:
        runs: Runs of one flow each over the same path.
        most: Largest number of points of a line.
        absent: Controllers without a valid Run.
    """
    direction = runs[0].flows[0]["direction"]
    drawn = capacity(runs[0], _directions(runs[0]))
    entries, goodput = [entry for _, entry, _ in drawn], [each for _, _, each in drawn]
    cwnd, rtt, backlog, drops = [], [], [], []
    has_peak = True
    for i, run in enumerate(runs, len(entries)):
        samples, path = run.samples(), series.path_series(run.links(), direction)
        entries.append(_entry(run.names[0]))
        at_s, bps = series.flow_bins(run, 0, BIN_S)
        goodput.append(line(i, at_s, bps * 1e-6, most))
        at_s, window = series.values(samples, 0, "cwnd_bytes")
        cwnd.append(line(i, at_s, window * 1e-6, most))
        rtt.append(line(i, *series.values(samples, 0, "rtt_smoothed_ms"), most))
        backlog.append(line(i, path.t_s, path.backlog_bytes * 1e-3, most))
        drops.append((i, times(path.t_s[path.drops_queue > 0])))
        has_peak &= path.has_peak
    entries += [replace(_entry(name, ": not valid"), absent=True) for name in absent]
    return Chart(
        "time",
        "Over time",
        entries,
        [
            Panel("Goodput and capacity, means of 1 s", "Goodput", "Mbit/s", goodput),
            Panel("Congestion window", "cwnd", "MB", cwnd),
            Panel("Smoothed RTT", "RTT", "ms", rtt, from_zero=False),
            _backlog(backlog, drops, has_peak=has_peak),
        ],
        runs[0].duration_s,
        marks(runs[0], direction),
    )


def sharing(run: Run, most: int) -> Chart:
    """Return the chart of one Run whose flows share the path: goodput, cwnd and RTT by flow, and the common backlog."""
    samples, names = run.samples(), run.names
    directions = _directions(run)
    drawn = capacity(run, directions)
    entries, goodput = [entry for _, entry, _ in drawn], [each for _, _, each in drawn]
    cwnd, rtt = [], []
    for flow, (name, number) in enumerate(zip(names, run.distinctions, strict=True)):
        i = len(entries)
        entries.append(_entry(name, number, repeated=name in names[:flow]))
        at_s, bps = series.goodput(samples, flow, BIN_S)
        goodput.append(line(i, at_s, bps * 1e-6, most))
        at_s, window = series.values(samples, flow, "cwnd_bytes")
        cwnd.append(line(i, at_s, window * 1e-6, most))
        rtt.append(line(i, *series.values(samples, flow, "rtt_smoothed_ms"), most))
    paths = [series.path_series(run.links(), direction) for direction in directions]
    backlog, drops = [], []
    for direction, path in zip(directions, paths, strict=True):
        entries.append(Entry("All flows" + (f" ({direction})" if len(directions) > 1 else ""), style.DELAY))
        backlog.append(line(len(entries) - 1, path.t_s, path.backlog_bytes * 1e-3, most))
        drops.append((len(entries) - 1, times(path.t_s[path.drops_queue > 0])))
    return Chart(
        "time",
        printable(style.short_command(run.scheme)),
        entries,
        [
            Panel("Goodput and capacity, means of 1 s", "Goodput", "Mbit/s", goodput),
            Panel("Congestion window", "cwnd", "MB", cwnd),
            Panel("Smoothed RTT", "RTT", "ms", rtt, from_zero=False),
            _backlog(backlog, drops, has_peak=all(path.has_peak for path in paths)),
        ],
        run.duration_s,
        marks(run, directions[0]),
    )


def cdfs(runs: Sequence[Run], most: int, absent: Sequence[str] = ()) -> Chart:
    """Return the chart of `bentpipe.plots.distributions.plot_cdfs`: goodput in two bins, and the RTT, over all seeds.

    Args:
        runs: Runs over one Profile; Runs of several flows are left out.
        most: Largest number of points of a line.
        absent: Controllers without a valid Run.
    """
    groups = {name: [(run, run.samples()) for run in group] for name, group in series.by_controller(runs).items()}
    column = series.finest_rtt(table for samples in groups.values() for _, table in samples)
    entries: list[Entry] = []
    fine: list[Line] = []
    coarse: list[Line] = []
    rtt: list[Line] = []
    for i, (controller, samples) in enumerate(groups.items()):
        entries.append(_entry(controller))
        for lines, bin_s in ((fine, 0.1), (coarse, 1.0)):
            bins = [series.flow_goodput(run, 0, bin_s) for run, _ in samples]
            lines.append(_cdf(i, np.concatenate(bins) * 1e-6, most))
        values = [steady(run, *series.values(table, 0, column)) for run, table in samples]
        rtt.append(_cdf(i, np.concatenate(values), most))
    entries += [replace(_entry(name, ": not valid"), absent=True) for name in absent]
    return Chart(
        "cdf",
        "Distributions",
        entries,
        [
            Panel("Goodput, bins of 100 ms", "Goodput, 100 ms", "Mbit/s", fine),
            Panel("Goodput, bins of 1 s", "Goodput, 1 s", "Mbit/s", coarse),
            Panel(RTT_TITLES[column], RTT_TITLES[column], "ms", rtt, from_zero=False),
        ],
    )


def worlds(pair: tuple[Run, Run], most: int) -> Chart:
    """Return the chart of `bentpipe.plots.worlds.plot_worlds`, with both Runs, A and B, in each panel."""
    entries: list[Entry] = []
    goodput: list[Line] = []
    delay: list[Line] = []
    for letter, run in zip("AB", pair, strict=True):
        dashes = () if letter == "A" else (4.0, 1.5)
        samples = run.samples()
        for flow, (name, number) in enumerate(zip(run.names, run.distinctions, strict=True)):
            at_s, bps = series.goodput(samples, flow, BIN_S)
            goodput.append(line(len(entries), at_s, bps * 1e-6, most))
            entry = _entry(name, number)
            entries.append(replace(entry, name=f"{letter}: {entry.name}", dashes=dashes))
        seconds, delays_ms = delays_with_gaps(run)
        delay.append(line(len(entries), np.array(seconds, dtype=np.float64), np.array(delays_ms), most))
        entries.append(Entry(f"{letter}: all data", style.DELAY, dashes))
    panels = [
        Panel("Goodput, means of 1 s", "Goodput", "Mbit/s", goodput),
        Panel("One-way delay of all data, means of 1 s", "Delay", "ms", delay),
    ]
    return Chart(
        "time", "Over time", entries, panels, pair[0].duration_s, marks(pair[0], pair[0].flows[0]["direction"])
    )


def marks(run: Run, direction: Direction) -> Marks:
    """Return the path under a Run, in a direction."""
    path = raced_path(run)
    handovers = series.event_times(run.events(), "handover")
    reconfigurations = series.event_times(run.events(), "reconfiguration")
    slots = series.slot_edges(run, np.concatenate([handovers, reconfigurations]))
    return Marks(
        times(handovers),
        times(slots),
        _spans(path.outages(), run) if path else [],
        _spans(path.loss_episodes(direction), run) if path else [],
        [(_time(a), _time(b), printable(name)) for a, b, name in path.serving()] if path else [],
    )


def capacity(run: Run, directions: Sequence[Direction]) -> list[tuple[Direction, Entry, Line]]:
    """Return the path's capacity in these directions [Mbit/s] as steps, with its legend entry; nothing: not limited."""
    path = raced_path(run)
    drawn: list[tuple[Direction, Entry, Line]] = []
    for direction in directions if path is not None else ():
        assert path is not None
        edges, bps = path.capacity_bps(direction, BIN_S)
        if len(bps) and np.isfinite(bps).all():
            mbps = np.append(bps, bps[-1]) * 1e-6
            name = f"Capacity ({direction})" if len(directions) > 1 else "Capacity"
            entry = Entry(name, style.CAPACITY, (4.0, 1.5) if drawn else ())
            drawn.append((direction, entry, line(len(drawn), edges, mbps, max(len(edges), 2), step=True)))
    return drawn


def _directions(run: Run) -> list[Direction]:
    """Return the directions of a Run's flows, the first flow's first."""
    return list(dict.fromkeys(flow["direction"] for flow in run.flows))


def _cdf(entry: int, sample: Floats, most: int) -> Line:
    ordered = np.sort(sample[np.isfinite(sample)])
    points = max(2, min(most // 4, len(ordered)))
    return Line(entry, _rounded(np.quantile(ordered, np.linspace(0, 1, points))) if len(ordered) else [], [])


def _entry(controller: str, number: str = "", *, repeated: bool = False) -> Entry:
    look = style.look(controller)
    return Entry(
        printable(style.legend_name(controller) + number), look.colour, (4.0, 1.5) if repeated else look.dashes
    )


def _backlog(lines: list[Line], drops: list[tuple[int, list[float]]], *, has_peak: bool) -> Panel:
    """Return the panel of backlogs: the peaks of each second, or older Runs' values at its end."""
    sampled = "peak of each second" if has_peak else "at the end of each second"
    return Panel(f"Backlog of the queues, {sampled}", "Backlog", "kB", lines, ticks=drops)


def _spans(spans: Iterable[tuple[float, float]], run: Run) -> list[tuple[float, float]]:
    """Return spans of time, those merged that no screen tells apart."""
    merged: list[tuple[float, float]] = []
    for start, end in spans:
        if merged and start - merged[-1][1] < run.duration_s / MOST_POINTS:
            merged[-1] = (merged[-1][0], _time(end))
        else:
            merged.append((_time(start), _time(end)))
    return merged


def _time(value_s: float) -> float:
    return round(float(value_s), TIME_DIGITS)


def times(values_s: Floats) -> list[float]:
    """Return times rounded to `TIME_DIGITS` [s]."""
    return [_time(value) for value in values_s.tolist()]


def _significant(value: float) -> float:
    return float(f"{value:.9g}")


def _rounded(values: Floats) -> list[float | None]:
    return [float(f"{value:.{DIGITS}g}") if np.isfinite(value) else None for value in values.tolist()]
