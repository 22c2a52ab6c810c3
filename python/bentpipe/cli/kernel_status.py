"""Output of `bentpipe kernel status`: the host's handover clock, and a row for each connection."""

from __future__ import annotations

import contextlib
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.cli.console import laid_out, print_json, say, table
from bentpipe.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

    from bentpipe.kernel.connections import SocketState

EVERY_S = 1.0
"""Time between two readings of `--watch` [s]."""
SILENT_S = 1.0
"""Time without an ACK from which on a row says so [s]. Chosen here: an ACK is shown up to 0.1 s late."""
NO_CONNECTION = "No connection uses a loaded controller."
_LONGEST_IPV4 = len("255.255.255.255:65535")
_NUMBERS = ("cwnd [kB]", "rate [Mbit/s]", "RTT [ms]", "min RTT [ms]", "delivered [MB]", "lost [MB]")


@dataclass(frozen=True)
class Status:
    """A reading of the clocks and the connections.

    Attributes:
        clocks: The clock of each controller, as `bentpipe.kernel.clock.record.described`.
        connections: The connections.
        clock_program: The `bentpipe clock` that runs, as `123 on host`; None: none, or all have a clock.
    """

    clocks: Mapping[str, Mapping[str, float | None]]
    connections: Sequence[SocketState]
    clock_program: str | None = None

    def show(self, *, as_json: bool = False, on_one_line: bool = False) -> None:
        """Print it on stdout: on a terminal as wide as that is, else as plain columns; or as JSON."""
        if as_json:
            connections = [each.to_dict() for each in self.connections]
            read = {"clocks": self.clocks, "clock_program": self.clock_program, "connections": connections}
            print_json(read, on_one_line=on_one_line)
            return
        if sys.stdout.isatty():
            from rich.console import Console

            Console().print(self)
            return
        for line in self._lines():
            say(line)
        if self.connections:
            table("", ["controller", "local", "remote", "phase", *_NUMBERS], [_row(each) for each in self.connections])

    def _lines(self) -> list[str]:
        return [*_clock_lines(self.clocks, self.clock_program), *([] if self.connections else [NO_CONNECTION])]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it: where the terminal is too narrow, two values in a cell."""
        from rich.text import Text

        for line in self._lines():
            yield Text(line)
        if not self.connections:
            return
        rows = [_row(each) for each in self.connections]
        wide = laid_out(["controller", "local", "remote", "phase", *_broken(_NUMBERS)], rows)
        endless = options.update(width=10_000, max_width=10_000)
        if console.measure(wide, options=endless).maximum <= options.max_width:
            yield wide
        else:
            yield _narrow(rows)


def watch_status(read: Callable[[], Status], *, as_json: bool) -> None:
    """Show what `read` returns each second until Ctrl-C: in place on a terminal, else as plain lines or JSON."""
    from rich.console import Console

    with contextlib.suppress(KeyboardInterrupt):  # the way to end it
        console = Console()
        if as_json or not console.is_terminal or console.is_dumb_terminal:
            while True:
                read().show(as_json=as_json, on_one_line=True)
                time.sleep(EVERY_S)
        from rich.live import Live

        with Live(read(), console=console, auto_refresh=False) as live:
            while True:
                live.refresh()
                time.sleep(EVERY_S)
                live.update(read())


def _broken(headings: Sequence[str]) -> list[str]:
    return [each.replace(" ", "\n") for each in headings]


def _narrow(rows: Sequence[Sequence[str]]) -> Table:
    headings = ["controller\nphase", "local\nremote", *_broken(_NUMBERS)]
    cells = [
        ["\n".join([name, *phase.split(", ")]), f"{_end(local)}\n{_end(remote)}", *numbers]
        for name, local, remote, phase, *numbers in rows
    ]
    layout = laid_out(headings, cells, folded=(1,))
    layout.padding = 0  # IPv4 addresses fit into 80 columns
    return layout


def _end(address: str) -> str:
    """Return an address with its port on a line of its own where the address alone is broken."""
    host, separator, port = address.rpartition(":")
    return address if len(address) <= _LONGEST_IPV4 else f"{host}\n{separator}{port}"


def _row(each: SocketState) -> list[str]:
    return [
        each.controller,
        each.local,
        each.remote,
        each.phase if each.silent_s < SILENT_S else f"{each.phase}, silent for {each.silent_s:.0f} s",
        f"{each.cwnd_bytes / 1e3:.0f}",
        f"{each.pacing_bps / 1e6:.1f}",
        f"{each.rtt_smoothed_ms:.2f}",
        f"{each.rtt_min_ms:.2f}",
        f"{each.delivered_bytes / 1e6:.1f}",
        f"{each.lost_bytes / 1e6:.1f}",
    ]


def _clock_lines(clocks: Mapping[str, Mapping[str, float | None]], clock_program: str | None) -> list[str]:
    no_clock = "no handover clock (`bentpipe clock` keeps one)"
    if clock_program is not None:
        no_clock = f"no handover clock now; `bentpipe clock` runs (process {printable(clock_program)})"
    names: dict[str, list[str]] = {}
    for controller, clock in clocks.items():
        line = no_clock
        if clock["period_s"] is not None:
            line = (
                f"handover clock: every {clock['period_s']:.3f} s, second {clock['second_of_minute']:.2f} of the "
                f"minute, next in {clock['next_s']:.1f} s, valid for {clock['valid_s']:.1f} s"
            )
        names.setdefault(line, []).append(controller)
    return [f"{', '.join(controllers)}: {line}" for line, controllers in names.items()]
