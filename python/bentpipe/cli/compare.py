"""`bentpipe compare`: two races over the same paths, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.runs.store import Run


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="Folder of a race.", show_default=False)],
    second: Annotated[Path, typer.Argument(metavar="B", help="Folder of the other race.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Page (.html) to write, with its figures. [default: no page]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare two races over the same paths, Run by Run: simulator and kernel, or two builds.

    Example:
        bentpipe race P.parquet --cc cubic,bbr -o out/sim &&
        bentpipe race P.parquet --cc cubic,bbr --on-kernel -o out/kernel &&
        bentpipe compare out/sim out/kernel -o compare.html
    """
    from bentpipe.cli.console import note, print_json, progress, say, table
    from bentpipe.errors import UserError
    from bentpipe.report import compare as both
    from bentpipe.runs.pairing import pair_up
    from bentpipe.runs.store import find_runs

    if out is not None and out.suffix != ".html":
        raise UserError(f"--out: {out} is no page; expected a file that ends in .html")
    races = find_runs(first), find_runs(second)
    pairing = pair_up(*races)
    names = _name(first, races[0]), _name(second, races[1])
    for line in both.left_out(pairing, names):
        note(line)
    if as_json:
        schemes = [scheme.to_dict() for scheme in pairing.schemes]
        print_json({"a": names[0], "b": names[1], "schemes": schemes, "page": None if out is None else str(out)})
    else:
        table(" / ".join(names), both.HEADS, both.table_rows(pairing))
        if items := both.item_rows(pairing):
            table("Items of the applications: durations", both.ITEM_HEADS, items)
    if out is not None:
        with progress("drawing") as advance:
            both.write_page(pairing, names, out, advance)
        if not as_json:
            say(out)


def _name(folder: Path, runs: Sequence[Run]) -> str:
    """Name a race by its folder and its world."""
    world = {"simulated": "simulated", "emulated": "this kernel"}.get(runs[0].world, runs[0].world)
    return f"{folder} ({world})"
