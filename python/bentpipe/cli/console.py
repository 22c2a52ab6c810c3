"""Terminal output: data on stdout; notes, warnings, errors and progress on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from bentpipe.cli import flags
from bentpipe.errors import StoppedError, printable
from bentpipe.files import write_error

if TYPE_CHECKING:
    from rich.table import Table

#: Characters that end a line. A message that quotes a file must stay on one line.
_BREAKS = {ord(c): " " for c in "\n\r\v\f\x1b\x85\u2028\u2029"}
#: Characters that JSON allows but a terminal may interpret as a command, or that no encoding has.
_NOT_IN_JSON = re.compile("[\x7f-\x9f\ud800-\udfff]")


def say(text: object = "", *, end: str = "\n") -> None:
    """Print `text` on stdout, without control characters except tabs and line ends.

    Raises:
        StoreError: Standard output is a file on a full disk.
    """
    with _standard_output():
        typer.echo(printable(str(text)) + end, nl=False)


def write_bytes(data: bytes) -> None:
    """Write `data` to stdout at once. Raises as `say`."""
    with _standard_output():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def flush() -> None:
    """Flush stdout. Raises as `say`."""
    with _standard_output():
        sys.stdout.flush()


def note(message: str) -> None:
    """Print one line on stderr about an action or an assumption."""
    _line("note", message)


def warn(message: str) -> None:
    """Print one line on stderr about something that may make the result less reliable."""
    _line("warning", message)


def error(message: str) -> None:
    """Print one line on stderr about an error."""
    _line("error", message)


def live_line(message: str) -> None:
    """Print one line on stderr about a Run in progress."""
    _line("live", message)


def error_json(error: Mapping[str, object]) -> None:
    """Print an error as JSON on stderr, in one line."""
    print(_as_json({"error": error}, None), file=sys.stderr)


def hint(message: str) -> None:
    """Print one line on stderr about a remedy."""
    _line("hint", message)


def print_json(value: Any, *, on_one_line: bool = False) -> None:  # noqa: ANN401 - JSON is anything
    """Print `value` as JSON on stdout, indented or as a line of its own. The encoder refuses NaN."""
    say(_as_json(value, None if on_one_line else 2))


def _as_json(value: Any, indent: int | None) -> str:  # noqa: ANN401 - JSON is anything
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return _NOT_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


FOLDED = 20
"""Longest word of a table that a narrow terminal does not fold [characters]. Chosen here: schemes are shorter."""

NAME = 24
"""As `FOLDED`, in the first column, whose names people type."""

LEAST = 12
"""Least width of a folded column, and longest text of several words that is not folded [characters]. Chosen here."""


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table on stdout: with rules on a terminal, as plain columns in a pipe. Numbers are aligned right.

    On a narrow terminal, columns without values are left out, headings are broken at blanks, and long texts are folded.
    Numbers and short texts are never broken: lines that still do not fit are longer than the terminal.
    """
    from rich.console import Console

    cells = [[printable(_cell(value)) for value in row] for row in rows]
    # In a pipe, lines must not be broken at an arbitrary width.
    terminal = sys.stdout.isatty()
    console = Console() if terminal else Console(width=10_000, color_system=None)
    headings = [printable(column) for column in columns]
    layout = _layout(title, headings, cells, terminal=terminal, folded=range(len(columns)))
    wide = Console(width=10_000, height=25)  # one measures no more than its width
    if terminal and wide.measure(layout).maximum > console.width:
        kept = [i for i in range(len(columns)) if not cells or any(row[i] for row in cells)]
        headings = [_broken(headings[i]) for i in kept]
        cells = [[row[i] for i in kept] for row in cells]
        folded = [
            i
            for i in range(len(kept))
            if any(
                len(row[i]) > (LEAST if " " in row[i] else FOLDED if i else NAME) and not _numeric(row[i])
                for row in cells
            )
        ]
        layout = _layout(title, headings, cells, terminal=True, folded=folded)
        least = [[cell if i not in folded else cell[:LEAST] for i, cell in enumerate(row)] for row in cells]
        narrow = _layout("", headings, least, terminal=True, folded=())
        console = Console(width=max(console.width, wide.measure(narrow).maximum), height=console.height)
    with _standard_output():
        console.print(layout)


def laid_out(columns: Sequence[str], rows: Iterable[Sequence[object]], *, folded: Collection[int] = ()) -> Table:
    """Lay out a table for a terminal, to be drawn by rich. Columns `folded` may be narrower than their texts."""
    cells = [[printable(_cell(value)) for value in row] for row in rows]
    return _layout("", [printable(column) for column in columns], cells, terminal=True, folded=folded)


def _broken(heading: str) -> str:
    """Break a heading at blanks, and in the middle of a long word."""
    words = re.split(" (?!%)", heading)
    halves = [
        (word[: (len(word) + 1) // 2] + "-", word[(len(word) + 1) // 2 :]) if len(word) > LEAST else (word,)
        for word in words
    ]
    return "\n".join(part for half in halves for part in half)


def _layout(
    title: str, headings: Sequence[str], cells: Sequence[Sequence[str]], *, terminal: bool, folded: Collection[int]
) -> Table:
    """Lay out a table of texts without markup; the columns `folded` may be narrower than their texts."""
    import rich.box
    from rich.table import Table
    from rich.text import Text

    box = rich.box.SIMPLE_HEAD if terminal else None
    layout = Table(
        title=Text(printable(title), style="table.title") if title else None,
        title_justify="left",
        box=box,
        pad_edge=False,
        show_edge=not terminal,
        padding=(0, 1, 0, 0) if terminal else (0, 2, 0, 0),
    )
    for place, heading in enumerate(headings):
        numeric = bool(cells) and all(_numeric(row[place]) for row in cells)
        # "fold" breaks a word that is longer than its column; the default cuts it off.
        justify: Literal["left", "right"] = "right" if numeric else "left"
        layout.add_column(Text(heading), justify=justify, overflow="fold", no_wrap=place not in folded)
    for row in cells:
        layout.add_row(*map(Text, row))
    return layout


@contextlib.contextmanager
def progress(description: str) -> Iterator[Callable[[float], None]]:
    """Yield a function that takes the fraction done, 0 to 1, and shows it as a bar on stderr, if that is a terminal.

    The bar appears with the first report after a second, so that short work shows none. It disappears at the end.
    """
    from time import monotonic

    if not sys.stderr.isatty():
        yield lambda fraction: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(description, total=1.0)
    begin = monotonic()

    def advance(fraction: float) -> None:
        bar.update(task, completed=fraction)
        if not bar.live.is_started and monotonic() - begin > 1.0:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()


@contextlib.contextmanager
def printed_warnings() -> Iterator[None]:
    """Print the Python warnings of a block as lines of `warn`."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: warn(str(message))
        yield


@contextlib.contextmanager
def reporting_interrupts(out: Path, then: str) -> Iterator[None]:
    """Turn Ctrl-C into an error that states how many Runs `out` holds and what to do `then`."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stored = len(list(out.glob("*/*/*/*/run.json")))
        raise StoppedError(f"interrupted: Runs stored in {out}: {stored}; {then}") from stop


def _line(kind: str, message: str) -> None:
    with contextlib.suppress(OSError):  # a full disk: there is nowhere else to report it
        typer.echo(f"{kind}: {printable(flags.with_flags(message).translate(_BREAKS))}", err=True)


@contextlib.contextmanager
def _standard_output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output()
        raise write_error("standard output", error) from error


def drop_output() -> None:
    """Redirect stdout to /dev/null, so that Python does not retry the unwritten rest at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _numeric(text: str) -> bool:
    """Tell whether a cell is a number, a range, grouped digits or empty."""
    return all(c in "0123456789.,-–+e \N{NARROW NO-BREAK SPACE}" for c in text)
