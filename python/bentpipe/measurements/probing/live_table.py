"""Live table of a running prober, with a line per target and bounded memory."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.errors import printable
from bentpipe.measurements.probing.spec import Spec
from bentpipe.measurements.probing.tracker import DUPLICATE

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Number of latest probes in the medians.
_SHOWN = 500


@dataclass(slots=True)
class _Line:
    sent: int = 0
    lost: int = 0
    rtt_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_SHOWN))
    late_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_SHOWN))
    cause: str = ""
    hops: int = 0
    round_unix_ns: int = 0


class LiveTable:
    """Probes and replies of each target, rendered for the terminal."""

    def __init__(self, spec: Spec) -> None:
        """Start with empty counts."""
        self._spec, self._skipped = spec, 0
        self._lines = [_Line() for _ in spec.targets]

    def probe(self, target: int, rtt_ns: int | None, flags: int, late_ns: int, cause: str | None) -> None:
        """Add the outcome of a probe."""
        line = self._lines[target]
        if flags & DUPLICATE:
            return
        line.sent += 1
        line.late_ns.append(late_ns)
        if rtt_ns is None:
            line.lost += 1
            line.cause = cause or "no answer"
        else:
            line.rtt_ns.append(rtt_ns)
            line.cause = ""

    def hop(self, target: int, unix_ns: int, ttl: int, address: str | None, rtt_ns: int | None) -> None:
        """Add a hop of a finished round."""
        line = self._lines[target]
        if unix_ns != line.round_unix_ns:
            line.sent, line.round_unix_ns = line.sent + 1, unix_ns
        line.hops = ttl
        if address == self._spec.targets[target].address and rtt_ns is not None:
            line.rtt_ns.append(rtt_ns)

    def set_counts(self, counts: Mapping[str, Any]) -> None:
        """Store the counters of the engine."""
        self._skipped = sum(counts["skipped"])

    def __rich__(self) -> RenderableType:
        """Render the table."""
        import rich.box
        from rich.markup import escape
        from rich.table import Table

        traced = self._spec.method == "trace"
        skipped = f"; {self._skipped} not sent: the machine is too slow" if self._skipped else ""
        every_s = self._spec.every_ns / 1e9
        title = f"{self._spec.method} every {every_s:g} s{skipped}; Ctrl-C stops it"
        table = Table(box=rich.box.SIMPLE_HEAD, title=title, title_justify="left")
        names = ("target", "rounds", "hops") if traced else ("target", "sent", "lost")
        for name in (*names, "median", "late", ""):
            table.add_column(name, justify="left" if name in ("target", "") else "right")
        for target, line in zip(self._spec.targets, self._lines, strict=True):
            lost = f"{line.lost / line.sent:.2%}" if line.sent else "–"
            cells = (
                target.name,
                str(line.sent),
                str(line.hops) if traced else lost,
                _median(line.rtt_ns),
                _median(line.late_ns),
                line.cause,
            )
            table.add_row(*(escape(printable(cell)) for cell in cells))
        return table


@contextmanager
def live(live_table: LiveTable, *, shown: bool) -> Iterator[None]:
    """Redraw the table on stderr twice a second within the context, if `shown`."""
    if not shown:
        yield
        return
    from rich.console import Console
    from rich.live import Live

    with Live(live_table, console=Console(stderr=True), refresh_per_second=2, transient=True):
        yield


def _median(values_ns: deque[int]) -> str:
    """Return the median of the latest values; works on a copy, because another thread draws."""
    known = list(values_ns)
    return f"{statistics.median(known) / 1e6:.2f} ms" if known else "–"
