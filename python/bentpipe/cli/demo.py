"""`bentpipe demo`: from orbits to a report in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import options


def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for Profiles, Runs and the report.")] = Path(
        "out/demo"
    ),
    jobs: options.Jobs = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every run as JSON instead of the table.")] = False,
) -> None:
    """Race NewReno, CUBIC and BBR from a terminal in Melbourne to Sydney and London over Starlink, and write a report.

    Example:
        bentpipe demo --out out/demo
    """
    from bentpipe.cli.console import note, progress, reporting_interrupts
    from bentpipe.cli.race import show_result

    note(
        "the demo makes Profiles of Starlink as its filings describe it, over Melbourne on 10 May 2026, races on "
        "them and writes a report"
    )
    with reporting_interrupts(out, "the same command starts over"):
        from bentpipe.demo import run_demo

        with progress("demo") as advance:
            result, page = run_demo(out, jobs=jobs, on_progress=advance)
        show_result(result, as_json)
    note(f"report: {page}")
