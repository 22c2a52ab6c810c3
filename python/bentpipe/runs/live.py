"""Live view of Runs in progress: throughput, RTT and queue of each flow, from its rows."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from bentpipe.errors import printable
from bentpipe.runs.rows import DroppedRow, EndRow, EventRow, FlowRow, HeaderRow, LinkRow, Row, RunKey, SampleRow
from bentpipe.sparkline import sparkline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console, ConsoleOptions, RenderResult

SHOWN_S = 30
"""Seconds of a Run in the curves."""

RATE_S = 1.0
"""Span over which throughput is averaged [s]."""

HEADS = ("Run", "at [s]", "flow", "Mbit/s", "", "RTT [ms]", "", "queue [kB]")
"""Columns of the view."""


@dataclass
class Meter:
    """Throughput and RTT of one flow."""

    flow: FlowRow
    bps: float | None = None
    rtt_ms: float | None = None
    rates: deque[float | None] = field(default_factory=lambda: deque(maxlen=SHOWN_S))
    rtts: deque[float | None] = field(default_factory=lambda: deque(maxlen=SHOWN_S))
    recent: deque[tuple[float, int]] = field(default_factory=deque)
    """Times [s] and counts of bytes of the last second."""

    def add(self, row: SampleRow) -> None:
        """Add a sample."""
        begins_second = not self.recent or int(row.t_s + 1e-9) > int(self.recent[-1][0] + 1e-9)
        self.recent.append((row.t_s, row.goodput_bytes))
        while len(self.recent) > 2 and row.t_s - self.recent[1][0] >= RATE_S - 1e-9:
            self.recent.popleft()
        begin_s, begin_bytes = self.recent[0]
        if row.t_s > begin_s:
            # The count of a program's flow goes down where its direction changes.
            self.bps = max(0, row.goodput_bytes - begin_bytes) * 8 / (row.t_s - begin_s)
        self.rtt_ms = row.rtt_smoothed_ms
        if begins_second:
            self.rates.append(self.bps)
            self.rtts.append(self.rtt_ms)


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

    def cells(self) -> list[tuple[str, ...]]:
        """Return the rows of the view, in the columns of `HEADS`; a program's Run begins with its path."""
        rows: list[tuple[str, float | None, Iterable[float | None], float | None, Iterable[float | None], int]] = []
        if self.duration_s is None:
            for side in sorted(self.sides.values(), key=lambda each: each.direction):
                bps = side.rates[-1] if side.rates else None
                rows.append((f"path {side.direction}", bps, side.rates, None, (), side.queue_bytes))
        for number, meter in sorted(self.flows.items()):
            flow = meter.flow
            queued = self.sides.get((flow.profile, flow.direction), Side(flow.direction)).queue_bytes
            label = f"{number} {flow.controller} {flow.direction}"
            rows.append((label, meter.bps, meter.rates, meter.rtt_ms, meter.rtts, queued))
        at = f"{self.t_s:.1f}" if self.duration_s is None else f"{self.t_s:.1f} of {self.duration_s:g}"
        return [
            (
                self.name if place == 0 else "",
                at if place == 0 else "",
                label,
                _number(bps, 1e-6),
                sparkline(list(rates)),
                _number(rtt_ms, 1.0),
                sparkline(list(rtts)),
                _number(queued, 1e-3),
            )
            for place, (label, bps, rates, rtt_ms, rtts, queued) in enumerate(rows)
        ]

    def lines(self) -> list[str]:
        """Return a line of text for each row of the view, and one for rows that were dropped."""
        lines = [
            f"{self.name} at {self.t_s:.1f} s: {label}: {rate} Mbit/s, RTT {rtt} ms, queue {queued} kB"
            for _, _, label, rate, _, rtt, _, queued in self.cells()
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
        import rich.box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=rich.box.SIMPLE_HEAD, title=Text(printable(self.title)), title_justify="left", pad_edge=False)
        for head in HEADS:
            table.add_column(Text(head), justify="right" if head.endswith(("]", "s")) else "left", no_wrap=True)
        room = max(1, (options.height or console.height) - 6)
        with self._lock:
            cells = [row for run in self._runs.values() for row in run.cells()]
            events = [run.event for run in self._runs.values()]
            dropped = sum(run.dropped for run in self._runs.values())
        for row in cells[:room]:
            table.add_row(*(Text(printable(cell)) for cell in row))
        yield table
        if len(cells) > room:
            yield Text(f"… and {len(cells) - room} more flows")
        if len(events) == 1:
            yield Text(printable(events[0]))
        if dropped:
            yield Text(f"{dropped} rows were dropped, because this display was too slow")


def _number(value: float | None, factor: float) -> str:
    return "–" if value is None else f"{value * factor:.1f}"
