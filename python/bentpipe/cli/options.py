"""Options that several commands take, each declared once; and places given as two words, which the shell splits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from bentpipe.errors import UserError

#: How a place is given: what help texts say.
PLACE = "a name of `bentpipe sites`, or lat,lon[,alt_m]"

Elements = Annotated[
    Path | None,
    typer.Option(help="Orbital elements: TLE, OMM (CSV, JSON, XML), plain or gzipped.", show_default=False),
]
Start = Annotated[
    str | None,
    typer.Option(
        help="When it begins: ISO-8601, UTC unless it has an offset; needed with --elements. "
        "[default: 2026-05-10T09:00:00Z]",
        show_default=False,
    ),
]
Gateways = Annotated[
    Path | None,
    typer.Option(
        help="A gateway list of your own (TOML, as in docs/reference/scenarios.md). [default: Starlink's of 2024]",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def place(*names: str, what: str) -> Any:  # noqa: ANN401 - as Typer has it
    """An option that takes a place; `what` says which."""
    return typer.Option(*names, help=f"{what}: {PLACE}.", show_default=False)


def shells(default: str) -> Any:  # noqa: ANN401 - as Typer has it
    """``--constellation``, with what serves if neither it nor ``--elements`` is given."""
    return typer.Option(help=f"Built-in shells, of `bentpipe constellations`. [default: {default}]", show_default=False)


class PlaceCommand(TyperCommand):
    """A command with places among its options.

    ``--site 40.44 -79.99`` reaches it as a place and an unknown option; it says what was meant.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer hides its class
        """Refuses two numbers after an option that takes one place; otherwise as every command."""
        for option, lat, lon in zip(args, args[1:], args[2:], strict=False):
            if option in _PLACES and _NUMBER.match(lat) and _NUMBER.match(lon):
                raise UserError(f"{option} {lat} {lon}: a place is one word; wanted {option} {lat},{lon}")
        return super().parse_args(ctx, args)


class PlotCommand(TyperCommand):
    """A command whose ``--plot`` may go without the name of a file, which Typer's options cannot."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer hides its class
        """Gives a ``--plot`` that no figure's name follows the value that `plot_file` knows."""
        words = list(args)
        for place, word in enumerate(args):
            after = "".join(args[place + 1 : place + 2])
            if word == "--plot" and not _FIGURE.search(after):
                if _SUFFIX.search(after) and not Path(after).exists():
                    raise UserError(f"--plot {after}: wanted a figure's name, in .png, .svg or .pdf")
                words[place] = f"--plot={_UNNAMED}"
        return super().parse_args(ctx, words)


def plot_file(given: str, measured: Path, name: str) -> Path:
    """Where ``--plot`` draws: the file given, or one called `name` in a folder, or here, that was `measured`."""
    if given != _UNNAMED:
        return Path(given)
    return measured / f"{name}.png" if measured.is_dir() else Path(f"{measured.stem}.{name}.png")


class ProgramCommand(TyperCommand):
    """A command that takes a Profile and then a program with its own options.

    Without ``--`` before it those would be taken for ours: ``run P.parquet curl -s URL`` is refused, and so is
    ``curl -o FILE``, which would name our folder and not curl's file. A ``--`` behind the program's name is too late.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer hides its class
        """Refuses options behind the program's name where no ``--`` stands before it."""
        program, *rest = self._program(ctx, args) or [""]
        if options := [word for word in rest if word.startswith("-") and word != "-"]:
            raise _behind_dashes(f"{options[0]} behind {program} would be taken for bentpipe's")
        return super().parse_args(ctx, args)

    def _program(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - Typer hides its class
        """The words from the program's name on, if no ``--`` stands before it."""
        words = list(args)
        for taken in (1, 0):  # past the Profile; up to the program
            parser = self.make_parser(ctx)
            parser.allow_interspersed_args = False  # ends at the first word that is no option's
            try:
                values, _, _ = parser.parse_args(list(words))
            except typer.TyperException:  # what is wrong with an option of ours is said where all are read
                return []
            found = [values["profile"], *(values["command"] or ())] if values["profile"] else []
            if words[: len(words) - len(found)][-1:] == ["--"]:
                return []
            words = found[taken:]
        return words


def _behind_dashes(found: str) -> UserError:
    error = UserError(f"{found}; wanted `--` before the program, whose options are its own then")
    error.add_note("bentpipe run P.parquet -- curl -s http://server:8000/")
    return error


_UNNAMED = "-"
_FIGURE = re.compile(r"\.(?:png|svg|pdf|jpe?g|e?ps|gif|tiff?|webp)\Z", re.IGNORECASE)
_SUFFIX = re.compile(r"^[^-].*\.[A-Za-z]{2,4}\Z")
_PLACES = ("--site", "--to", "--from")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?,?\Z")
