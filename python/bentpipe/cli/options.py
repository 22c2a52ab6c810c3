"""Options that several commands share, and command classes that check the command line before Typer does."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import MISSING
from dataclasses import fields as dataclass_fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from bentpipe.errors import UserError, shown
from bentpipe.times import parse_duration_ns

#: Format of a place, for help texts.
PLACE = "a name of `bentpipe sites`, the IATA code of one of them, or lat,lon[,alt_m]"

Elements = Annotated[
    Path | None,
    typer.Option(
        help="Orbital elements: TLE, OMM (CSV, JSON, XML), plain or gzipped. [default: --constellation]",
        show_default=False,
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        help="Start time: ISO-8601, UTC unless it has an offset; needed with --elements. "
        "[default: 2026-05-10T09:00:00Z]",
        show_default=False,
    ),
]
Gateways = Annotated[
    Path | None,
    typer.Option(
        help="Gateway list (TOML, see docs/reference/scenarios.md). [default: Starlink's gateways of 2024]",
        show_default=False,
    ),
]
Isl = Annotated[
    str | None,
    typer.Option(
        help="Inter-satellite links: auto (where no satellite above the terminal sees a gateway), never or always. "
        "[default: auto]",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def duration(text: str | float) -> float:
    """Parse a duration on the command line into seconds; the command checks its range.

    Raises:
        BadParameter: It is none; Typer adds the flag.

    Example:
        >>> duration("60"), duration("60s"), duration("5m"), duration("10ms")
        (60.0, 60.0, 300.0, 0.01)
    """
    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        if not math.isfinite(seconds):
            raise typer.BadParameter(f"{shown(str(text))} is not a duration; expected a finite number of seconds")
        return seconds
    try:
        return parse_duration_ns(str(text), "", least_ns=0) / 1e9
    except UserError as error:
        raise typer.BadParameter(str(error)) from None


For = Annotated[
    float | None,
    typer.Option(
        "--for",
        parser=duration,
        help="Duration: 90 (seconds), 90s, 15m, 2h. [default: until Ctrl-C]",
        show_default=False,
    ),
]


Jobs = Annotated[
    int | None,
    typer.Option("-j", "--jobs", help="Threads; the result is the same. [default: all cores]", show_default=False),
]

On = Annotated[
    str | None,
    typer.Option(
        "--on",
        help="Dask scheduler whose workers do the Runs: tcp://host:8786. [default: this machine]",
        show_default=False,
    ),
]


def shared(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the fields of its last parameter, a dataclass of options, as options of its own.

    So options that several commands have are declared once, and reach their common code as one object.
    """
    hints = get_type_hints(command, include_extras=True)
    *own, last = inspect.signature(command).parameters.values()
    record = hints[last.name]
    fields = get_type_hints(record, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [each.replace(kind=keyword, annotation=hints[each.name]) for each in own]
    parameters += [
        inspect.Parameter(
            each.name,
            keyword,
            annotation=fields[each.name],
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
        )
        for each in dataclass_fields(record)
    ]

    @wraps(command)
    def expanded(**values: Any) -> None:  # noqa: ANN401 - as Typer parsed them
        common = record(**{name: values.pop(name) for name in fields})
        command(**values, **{last.name: common})

    del expanded.__wrapped__  # Typer would read its parameters
    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {each.name: each.annotation for each in parameters}
    return expanded


def place(*names: str, label: str) -> Any:  # noqa: ANN401 - as Typer has it
    """Declare an option that takes a place; `label` says which."""
    return typer.Option(*names, help=f"{label}: {PLACE}.", show_default=False)


def shells(default: str) -> Any:  # noqa: ANN401 - as Typer has it
    """Declare ``--constellation``; `default` applies if neither it nor ``--elements`` is given."""
    return typer.Option(help=f"A name of `bentpipe constellations`. [default: {default}]", show_default=False)


class PlaceCommand(TyperCommand):
    """A command that takes places. It refuses ``--site 40.44 -79.99`` with the correct spelling."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer hides its class
        """Refuse two numbers after an option that takes one place."""
        _refuse_split_places(args)
        return super().parse_args(ctx, args)


def _refuse_split_places(args: list[str]) -> None:
    for option, lat, lon in zip(args, args[1:], args[2:], strict=False):
        if option in _PLACES and _NUMBER.match(lat) and _NUMBER.match(lon):
            raise UserError(f"{option} {lat} {lon}: a place is one word; expected {option} {lat},{lon}")


class PlotCommand(TyperCommand):
    """A command whose ``--plot`` takes an optional file name, which Typer's options do not support."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer hides its class
        """Give a ``--plot`` without a file name the placeholder that `plot_file` replaces."""
        words = list(args)
        for place, word in enumerate(args):
            after = "".join(args[place + 1 : place + 2])
            if word == "--plot" and not _FIGURE.search(after):
                if _SUFFIX.search(after) and not Path(after).exists():
                    raise UserError(f"--plot {after}: not a figure; expected a file name in .png, .svg or .pdf")
                words[place] = f"--plot={_UNNAMED}"
        return super().parse_args(ctx, words)


class ScoreCommand(TyperCommand):
    """A command whose ``--test`` takes several files: ``--test A B`` would otherwise train on B."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer hides its class
        """Repeat ``--test`` before each word up to the next option."""
        words: list[str] = []
        is_test = False
        for word in args:
            if word.startswith("-"):
                is_test = word == "--test"
                words += [] if is_test else [word]
            else:
                words += ["--test", word] if is_test else [word]
        return super().parse_args(ctx, words)


def plot_file(given: str, measured: Path, name: str) -> Path:
    """Return the figure's file: the given one, or `name`.png in the folder `measured`, or here if that is a file."""
    if given != _UNNAMED:
        return Path(given)
    return measured / f"{name}.png" if measured.is_dir() else Path(f"{measured.stem}.{name}.png")


class ProgramCommand(TyperCommand):
    """A command that takes a Profile, or ``--site`` to make one, and then a program with its own options.

    Without ``--`` before the program, Typer would parse its options as bentpipe's. So ``run P.parquet curl -s URL`` is
    refused, and so is ``curl -o FILE``, which would set bentpipe's folder and not curl's file. A ``--`` after the
    program's name is too late.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer hides its class
        """Refuse options after the program's name if no ``--`` precedes it. With ``--site`` the Profile is `MADE`."""
        own = args[: args.index("--")] if "--" in args else args
        if any(word.partition("=")[0] == "--site" for word in own):
            _refuse_split_places(own)
            return super().parse_args(ctx, [*own, *self._made_profile(ctx, own), *args[len(own) :]])
        program, *rest = self._program(ctx, args) or [""]
        if options := [word for word in rest if word.startswith("-") and word != "-"]:
            raise _missing_dashes(f"{options[0]} after {program} would be parsed as bentpipe's")
        return super().parse_args(ctx, args)

    def _made_profile(self, ctx: Any, own: list[str]) -> list[str]:  # noqa: ANN401 - Typer hides its class
        """Return the word in the Profile's place; refuse a Profile or a program before ``--``."""
        try:
            values, _, _ = self.make_parser(ctx).parse_args(list(own))
        except typer.TyperException:  # the real parse reports errors in bentpipe's own options
            return []
        if (word := values.get("profile")) is not None:
            error = UserError(f"{word}: --site makes the Profile; expected either of them, and `--` before the program")
            error.add_note("bentpipe run --site louvain --to london -- curl -s http://server:8000/")
            raise error
        return [MADE]

    def _program(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer hides its class
        """Return the words from the program's name on; empty if ``--`` precedes it."""
        words = list(args)
        for skipped in (1, 0):  # past the Profile; up to the program
            parser = self.make_parser(ctx)
            parser.allow_interspersed_args = False  # stops at the first word that belongs to no option
            try:
                values, _, _ = parser.parse_args(list(words))
            except typer.TyperException:  # the real parse reports errors in bentpipe's own options
                return []
            rest = [values["profile"], *(values["command"] or ())] if values["profile"] else []
            if words[: len(words) - len(rest)][-1:] == ["--"]:
                return []
            words = rest[skipped:]
        return words


MADE = "-"
"""Word in a Profile's place if options make the Profile."""


def _missing_dashes(problem: str) -> UserError:
    error = UserError(f"{problem}; expected `--` before the program")
    error.add_note("bentpipe run P.parquet -- curl -s http://server:8000/")
    return error


_UNNAMED = "-"
_FIGURE = re.compile(r"\.(?:png|svg|pdf|jpe?g|e?ps|gif|tiff?|webp)\Z", re.IGNORECASE)
_SUFFIX = re.compile(r"^[^-].*\.[A-Za-z]{2,4}\Z")
_PLACES = ("--site", "--to", "--from")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?,?\Z")
