"""What commands print: data on stdout; notes, warnings, errors and progress on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from bentpipe.errors import StoppedError, printable
from bentpipe.files import write_error

#: Characters that end a line: a message from a file's content must stay one line.
_BREAKS = {ord(c): " " for c in "\n\r\v\f\x1b\x85\u2028\u2029"}
#: What JSON holds as it is and a terminal may take for a command, or no encoding has.
_NOT_IN_JSON = re.compile("[\x7f-\x9f\ud800-\udfff]")


def say(text: object = "", *, end: str = "\n") -> None:
    """`text` on stdout, without control characters but for tabs and ends of lines.

    Raises:
        StoreError: Standard output is a file on a disk that is full.
    """
    with _standard_output():
        typer.echo(printable(str(text)) + end, nl=False)


def flush() -> None:
    """Hands over what was printed. Raises as `say`."""
    with _standard_output():
        sys.stdout.flush()


def note(message: str) -> None:
    """One line on stderr about what was done or assumed."""
    _line("note", message)


def warn(message: str) -> None:
    """One line on stderr about what may make the result worth less."""
    _line("warning", message)


def error(message: str) -> None:
    """One line on stderr about what went wrong."""
    _line("error", message)


def hint(message: str) -> None:
    """One line on stderr about what to do."""
    _line("hint", message)


def print_json(value: Any) -> None:  # noqa: ANN401 - JSON is anything
    """`value` as JSON on stdout, whole numbers and short decimals as they are; NaN is refused by the encoder."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    say(_NOT_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on stdout: drawn on a terminal, plain columns in a pipe. Columns of numbers are aligned right."""
    import rich.box
    from rich.console import Console
    from rich.table import Table

    cells = [[_cell(value) for value in row] for row in rows]
    # In a pipe lines must not be broken at some width that nobody asked for.
    terminal = sys.stdout.isatty()
    console = Console() if terminal else Console(width=10_000, color_system=None)
    box = rich.box.SIMPLE_HEAD if terminal else None
    drawn = Table(title=_escaped(title) or None, title_justify="left", box=box, pad_edge=terminal, padding=(0, 2, 0, 0))
    for place, column in enumerate(columns):
        numeric = bool(cells) and all(_numeric(row[place]) for row in cells)
        # Fold: a word longer than its column is broken, not cut off.
        drawn.add_column(_escaped(column), justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        drawn.add_row(*(_escaped(cell) for cell in row))
    with _standard_output():
        console.print(drawn)


@contextlib.contextmanager
def progress(description: str) -> Iterator[Callable[[float], None]]:
    """A function that takes the fraction done, 0 to 1, and shows it: a bar on stderr, if that is a terminal.

    The bar appears with the first report after a second, so that quick work leaves no trace; it is gone at the end.
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
def keeping(out: Path, then: str) -> Iterator[None]:
    """Ctrl-C inside, where nobody has more to say, tells how many Runs `out` holds and what to do `then`."""
    try:
        yield
    except KeyboardInterrupt as stop:
        kept = len(list(out.glob("*/*/*/*/run.json")))
        raise StoppedError(f"interrupted: Runs kept in {out}: {kept}; {then}") from stop


def _escaped(text: str) -> str:
    """`text` with nothing in it that Rich would take for markup, or a terminal for a command."""
    from rich.markup import escape

    return escape(printable(text))


def _line(kind: str, message: str) -> None:
    with contextlib.suppress(OSError):  # a full disk: there is nowhere else to say so
        typer.echo(f"{kind}: {printable(message.translate(_BREAKS))}", err=True)


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
    """Lets the rest go nowhere: what standard output did not take would be tried again at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _numeric(text: str) -> bool:
    """Numbers, ranges of them, digits in groups, and nothing at all."""
    return all(c in "0123456789.,-–+e \N{NARROW NO-BREAK SPACE}" for c in text)
