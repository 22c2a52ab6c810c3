"""`bentpipe kernel`: what this machine's kernel can do for us."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bentpipe.execution.emulation.check import KernelReport

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
    from bentpipe.cli.console import print_json, say, table
    from bentpipe.execution.emulation.check import check_kernel
    from bentpipe.execution.kernel import trial_path

    report = check_kernel(trial_path())
    if as_json:
        print_json({"usable": report.usable, "checks": [item.to_dict() for item in report.checks]})
    else:
        rows = [[item.name, "ok" if item.ok else "no", item.found, item.means] for item in report.checks]
        table("", ["what", "", "found", "means"], rows)
        say(_verdict(report))
    raise typer.Exit(0 if report.usable else 2)


def _verdict(report: KernelReport) -> str:
    if not report.usable:
        return "No emulation runs here: see the first `no`."
    missing = [item.name for item in report.checks if not item.ok]
    if "lateness" in missing:
        return (
            "Emulations run here, but this machine did not keep time just now: end other work on it, or expect Runs "
            "that are not valid and say so."
        )
    if missing:
        return f"Emulations run here; what is missing ({', '.join(missing)}) costs what stands beside it."
    return "Emulations run here, and nothing is missing."
