"""Live view of Runs in progress: throughput, RTT and queue of each flow, from its rows."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len, set_cell_size

from bentpipe.errors import printable
from bentpipe.experiments.flow_names import without_folders
from bentpipe.runs.rows import DroppedRow, EndRow, EventRow, FlowRow, HeaderRow, LinkRow, Row, RunKey, SampleRow
from bentpipe.sparkline import sparkline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, ConsoleOptions, RenderResult

SHOWN_S = 30
"""Seconds of a Run in the curves."""

HEADS = ("Run", "at [s]", "flow", "Mbit/s", "", "RTT [ms]", "", "queue [kB]")
"""Columns of the view on a wide terminal; a narrow one has a line for each Run, and the flows below it."""

KEPT_S = 3.0
"""Span of the samples that a flow's throughput comes from [s]: a window of the path, and delays of its rows."""

CURVES = (SHOWN_S, 20, 10, 5, 0)
"""Lengths of the curves on a narrow terminal; the first that fits [characters]. Chosen here: fewer show no course."""


class Line(NamedTuple):
    """A line of the view."""

    label: str
    bps: float | None
    rates: Sequence[float | None]
    rtt_ms: float | None
    rtts: Sequence[float | None]
    queue_bytes: int


@dataclass
class Meter:
    """Throughput and RTT of one flow."""

    flow: FlowRow
    rtt_ms: float | None = None
    rates: deque[float | None] = field(default_factory=lambda: deque(maxlen=SHOWN_S))
    """Throughput in each whole second [bit/s]."""
    rtts: deque[float | None] = field(default_factory=lambda: deque(maxlen=SHOWN_S))
    recent: deque[tuple[float, int]] = field(default_factory=deque)
    """Times [s] and counts of bytes of the last seconds."""

    def add(self, row: SampleRow) -> None:
        """Add a sample."""
        self.rtt_ms = row.rtt_smoothed_ms
        self.recent.append((row.t_s, row.goodput_bytes))
        second = int(row.t_s + 1e-9)
        if len(self.recent) > 1 and second > int(self.recent[-2][0] + 1e-9):
            self.rates.append(self.bps_over(second - 1, second))
            self.rtts.append(self.rtt_ms)
        while len(self.recent) > 2 and self.recent[1][0] < row.t_s - KEPT_S:
            self.recent.popleft()

    def bps_over(self, begin_s: float, end_s: float) -> float | None:
        """Return the throughput in a span [bit/s]; until the flow has samples in it, that since its first sample."""
        if not self.recent or end_s <= self.recent[0][0]:
            begin_s, end_s = (self.recent[0][0], self.recent[-1][0]) if self.recent else (0.0, 0.0)
        if end_s <= begin_s:
            return None
        # The count of a program's flow goes down where its direction changes.
        return max(0.0, self._bytes_at(end_s) - self._bytes_at(begin_s)) * 8 / (end_s - begin_s)

    def _bytes_at(self, t_s: float) -> float:
        """Return the count at a time, linear between two samples, constant before the first and after the last."""
        before_s, before = self.recent[0]
        for after_s, after in self.recent:
            if after_s >= t_s:
                share = (t_s - before_s) / (after_s - before_s) if before_s < t_s else 0.0
                return before + share * (after - before)
            before_s, before = after_s, after
        return before


@dataclass
class Side:
    """One direction of a path in its last window."""

    direction: str
    t_s: float = 0.0
    span_s: float = 0.0
    queue_bytes: int = 0
    carried_bytes: int = 0
    rates: deque[float | None] = field(default_factory=lambda: deque(maxlen=SHOWN_S))
    hops: dict[str, int] = field(default_factory=dict)
    """Bytes delivered so far, by hop."""

    def add(self, row: LinkRow) -> None:
        """Add the row of all flows of a hop."""
        if row.t_s > self.t_s:
            self.span_s, self.t_s = row.t_s - self.t_s, row.t_s
            self.queue_bytes = self.carried_bytes = 0
            self.rates.append(None)
        # A packet passes each hop of its route once, so the busiest hop has the traffic of the path.
        self.carried_bytes = max(self.carried_bytes, row.delivered_bytes - self.hops.get(row.hop, 0))
        self.hops[row.hop] = row.delivered_bytes
        self.queue_bytes = max(self.queue_bytes, row.backlog_bytes)
        if self.rates:
            self.rates[-1] = self.carried_bytes * 8 / self.span_s


class RunView:
    """A Run in progress."""

    def __init__(self, header: HeaderRow, *, has_experiment: bool = False) -> None:
        """Begin with the Run's first row; `has_experiment`: the Run's name has that of its Experiment."""
        self.name = f"{header.run}, {header.run.experiment}" if has_experiment else str(header.run)
        self.duration_s = header.duration_s
        self.t_s = 0.0
        self.event = ""
        self.dropped = 0
        self.flows: dict[int, Meter] = {}
        self.sides: dict[tuple[str, str], Side] = {}

    def add(self, row: Row) -> None:
        """Add a later row."""
        if isinstance(row, FlowRow):
            if row.flow in self.flows:
                self.flows[row.flow].flow = row
            else:
                self.flows[row.flow] = Meter(row)
        elif isinstance(row, SampleRow):
            self.t_s = max(self.t_s, row.t_s)
            if row.flow in self.flows:
                self.flows[row.flow].add(row)
        elif isinstance(row, LinkRow):
            self.t_s = max(self.t_s, row.t_s)
            if row.flow == -1:
                self.sides.setdefault((row.profile, row.direction), Side(row.direction)).add(row)
        elif isinstance(row, EventRow):
            if row.flow < 0:
                self.event = f"{row.kind} at {row.t_s:.1f} s"
        elif isinstance(row, DroppedRow):
            self.dropped += row.rows

    @property
    def at(self) -> str:
        """The time in the Run, and its duration if that is known [s]."""
        return f"{self.t_s:.1f}" if self.duration_s is None else f"{self.t_s:.1f} of {self.duration_s:g}"

    def view(self) -> list[Line]:
        """Return the lines of the view; a program's Run begins with its path."""
        view: list[Line] = []
        if self.duration_s is None:
            for side in sorted(self.sides.values(), key=lambda each: each.direction):
                bps = side.rates[-1] if side.rates else None
                view.append(Line(f"path {side.direction}", bps, side.rates, None, (), side.queue_bytes))
        for number, meter in sorted(self.flows.items()):
            flow = meter.flow
            side = self.sides.get((flow.profile, flow.direction), Side(flow.direction))
            # Over the window of the path: any other span could show a flow that is faster than its path.
            bps = meter.bps_over(side.t_s - side.span_s, side.t_s)
            label = f"{number} {without_folders(flow.controller)} {flow.direction}"
            view.append(Line(label, bps, meter.rates, meter.rtt_ms, meter.rtts, side.queue_bytes))
        return view

    def lines(self) -> list[str]:
        """Return a line of text for each row of the view, and one for rows that were dropped."""
        lines = [
            f"{self.name} at {self.t_s:.1f} s: {each.label}: {_number(each.bps, 1e-6)} Mbit/s, "
            f"RTT {_number(each.rtt_ms, 1.0)} ms, queue {_number(each.queue_bytes, 1e-3)} kB"
            for each in self.view()
        ]
        if self.dropped:
            lines.append(f"{self.name}: {self.dropped} rows were dropped, because this display was too slow")
        return lines


class LiveView:
    """The Runs in progress, rendered by Rich in its own thread; finished ones leave it."""

    def __init__(self) -> None:
        """Begin without Runs."""
        self.title = ""
        self._runs: dict[RunKey, RunView] = {}
        self._experiments: set[str] = set()
        self._lock = Lock()

    def lines(self) -> list[str]:
        """Return the lines of all Runs in progress."""
        with self._lock:
            return [line for run in self._runs.values() for line in run.lines()]

    def add(self, row: Row) -> RunView | None:
        """Add a row. Return the Run if it is over."""
        with self._lock:
            if isinstance(row, HeaderRow):
                self._experiments.add(row.run.experiment)
                self._runs[row.run] = RunView(row, has_experiment=len(self._experiments) > 1)
            elif isinstance(row, EndRow):
                return self._runs.pop(row.run, None)
            elif row.run in self._runs:
                self._runs[row.run].add(row)
            return None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the Runs that fit into the terminal."""
        from rich.text import Text

        room = max(1, (options.height or console.height) - 6)
        with self._lock:
            runs = [(run.name, run.at, run.view()) for run in self._runs.values()]
            events = [run.event for run in self._runs.values()]
            dropped = sum(run.dropped for run in self._runs.values())
        lines = _table(runs, options.max_width)
        shown = [self.title, *lines[:room]]
        shown += [f"… and {len(lines) - room} more lines"] if len(lines) > room else []
        shown += events if len(events) == 1 else []
        shown += [f"{dropped} rows were dropped, because this display was too slow"] if dropped else []
        for line in filter(None, shown):
            yield Text(printable(line), no_wrap=True, overflow="ellipsis")


def _table(runs: Sequence[tuple[str, str, Sequence[Line]]], width: int) -> list[str]:
    """Return the lines of a table that fits into `width` columns: its heading, then the flows of each Run.

    Without room for Run and time beside the flows, they have a line of their own, and curves are shorter or left out.
    """
    every = [each for _, _, view in runs for each in view]
    names = [[run, at] if place == 0 else ["", ""] for run, at, view in runs for place in range(len(view))]
    wide = [[*name, *cells] for name, cells in zip(names, _cells(every, SHOWN_S), strict=True)]
    lines = _aligned([HEADS, *wide])
    if _longest(lines) <= width:
        return lines
    for length in CURVES:
        heads, cells = list(HEADS[2:]), _cells(every, length)
        if not length:  # without the columns of the curves
            heads, cells = [head for head in heads if head], [[each[0], each[1], each[3], each[5]] for each in cells]
        lines = _aligned([heads, *cells])
        if _longest(lines) <= width:
            break
    else:
        spare = max(1, max(cell_len(each.label) for each in every) - _longest(lines) + width)
        lines = _aligned([heads, *([set_cell_size(each[0], spare), *each[1:]] for each in cells)])
    stacked = [lines[0]]
    for (run, at), line in zip(names, lines[1:], strict=True):
        stacked += [f"{at} s: {run}", line] if run else [line]
    return stacked


def _cells(lines: Sequence[Line], length: int) -> list[list[str]]:
    """Return the cells of the flows, with curves of the last `length` seconds."""
    return [
        [
            each.label,
            _number(each.bps, 1e-6),
            sparkline(list(each.rates)[-length:]),
            _number(each.rtt_ms, 1.0),
            sparkline(list(each.rtts)[-length:]),
            _number(each.queue_bytes, 1e-3),
        ]
        for each in lines
    ]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of columns as wide as their cells, under the first row; numbers are aligned right."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    for column in columns:
        width = max(map(cell_len, column))
        is_number = column[0].endswith(("/s", "]")) and column[0] != HEADS[1]
        for place, cell in enumerate(column):
            blanks = " " * (width - cell_len(cell))
            column[place] = blanks + cell if is_number else cell + blanks
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def _longest(lines: Sequence[str]) -> int:
    return max(map(cell_len, lines))


def _number(value: float | None, factor: float) -> str:
    return "–" if value is None else f"{value * factor:.1f}"
