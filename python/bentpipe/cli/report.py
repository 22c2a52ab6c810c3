"""`bentpipe report`: an HTML page about the Runs in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="Folder of a race, or of measured Runs: of `bentpipe read`, `probe`, or the testbed.",
            show_default=False,
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the path of the page as JSON.")] = False,
) -> None:
    """Write OUT/report.html, one self-contained page, with its figures beside it.

    Example:
        bentpipe report out/race
    """
    from bentpipe.cli.console import print_json, progress, reporting_interrupts, say

    with reporting_interrupts(out, "the same command writes the page"):
        from bentpipe.report.build import write_report

        with progress("drawing") as advance:
            page = write_report(out, on_progress=advance)
    if as_json:
        print_json({"report": str(page)})
    else:
        say(page)
