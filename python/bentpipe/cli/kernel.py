"""`bentpipe kernel`: what this machine's kernel can do for us."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="What this machine's kernel can do for an emulation.", no_args_is_help=True)


@app.callback()
def kernel() -> None:
    """What this machine's kernel can do for an emulation."""


@app.command()
def check(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False) -> None:
    """Try an emulation, and tell what works, what is missing and what that costs. Exit code 2: no emulation here.

    Example:
        bentpipe kernel check
    """
    from bentpipe.cli.console import print_json, table
    from bentpipe.emulation.check import check_kernel
    from bentpipe.runs.kernel import trial_path

    report = check_kernel(trial_path())
    if as_json:
        print_json({"usable": report.usable, "checks": [item.to_dict() for item in report.checks]})
    else:
        rows = [[item.name, "ok" if item.ok else "no", item.found, item.means] for item in report.checks]
        table("", ["what", "", "found", "means"], rows)
    raise typer.Exit(0 if report.usable else 2)
