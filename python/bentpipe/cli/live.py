"""`--live` and `--rows`: rows of the Runs in progress, on the terminal and in a file."""

from __future__ import annotations

import contextlib
import sys
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bentpipe.execution.rows import OnRows
    from bentpipe.runs.live import LiveView

Live = Annotated[
    bool,
    typer.Option(
        "--live",
        help="Show throughput, RTT and queue of the Runs in progress: a table on a terminal, else a line per second "
        "and flow.",
    ),
]
Rows = Annotated[
    str | None,
    typer.Option(
        help="File for the rows of the Runs in progress, as lines of JSON (docs/guides/live.md); - is standard output. "
        "[default: none]",
        metavar="FILE",
        show_default=False,
    ),
]

REFRESHES_PER_S = 4
LINE_S = 1.0


@contextlib.contextmanager
def row_sinks(rows: str | None, *, live: bool, is_table: bool) -> Iterator[tuple[OnRows | None, LiveView | None]]:
    """Yield the function that takes rows, and the view that it feeds.

    The function is None if nobody wants rows. With `is_table` the view is a table, else it prints lines.

    Raises:
        UserError, StoreError, BrokenPipeError: The file of the rows cannot be written, as `row_file`.
    """
    with contextlib.ExitStack() as stack:
        sinks: list[OnRows] = []
        view = None
        if rows is not None:
            sinks.append(stack.enter_context(_row_output(rows)))
        if live:
            from bentpipe.runs.live import LiveView

            view = LiveView()
            sinks.append(_feed(view, lines=not is_table))
            if is_table:
                stack.enter_context(_shown(view))

        def give(lines: bytes) -> None:
            for sink in sinks:
                sink(lines)

        yield give if sinks else None, view


@contextlib.contextmanager
def race_sinks(rows: str | None, *, live: bool) -> Iterator[tuple[OnRows | None, Callable[[float], None]]]:
    """Yield the function that takes a race's rows, and the one that takes its progress."""
    from bentpipe.cli.console import progress

    is_table = live and sys.stderr.isatty()
    with row_sinks(rows, live=live, is_table=is_table) as (on_rows, view):
        if view is None:
            with progress("racing") as advance:
                yield on_rows, advance
            return

        def advance_view(share: float) -> None:
            view.title = f"racing: {share:.0%}"

        yield on_rows, advance_view


@contextlib.contextmanager
def _row_output(rows: str) -> Iterator[OnRows]:
    from bentpipe.cli.console import write_bytes
    from bentpipe.execution.rows import escaped, row_file

    if rows == "-":
        yield lambda lines: write_bytes(escaped(lines))
        return
    with row_file(rows) as write:
        yield write


@contextlib.contextmanager
def _shown(view: LiveView) -> Iterator[None]:
    from rich.console import Console
    from rich.live import Live as RichLive

    console = Console(stderr=True)
    with RichLive(view, console=console, refresh_per_second=REFRESHES_PER_S, transient=True, redirect_stdout=False):
        yield


def _feed(view: LiveView, *, lines: bool) -> OnRows:
    """Return a function that adds rows to the view; with `lines` it prints it each second, and each Run at its end."""
    from bentpipe.cli.console import live_line
    from bentpipe.runs.rows import parse_rows

    last_s = monotonic()

    def on_rows(part: bytes) -> None:
        nonlocal last_s
        for row in parse_rows(part):
            ended = view.add(row)
            if lines and ended is not None:
                for line in ended.lines():
                    live_line(f"{line} (end)")
        if lines and monotonic() - last_s >= LINE_S:
            last_s = monotonic()
            for line in view.lines():
                live_line(line)

    return on_rows
