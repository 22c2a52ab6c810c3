"""`bentpipe kernel`: check this machine's kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bentpipe.execution.emulation.check import KernelReport

app = typer.Typer(help="Check this machine's kernel for emulation.", no_args_is_help=True)


@app.callback()
def kernel() -> None:
    """Check this machine's kernel for emulation."""


@app.command()
def check(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False) -> None:
    """Try an emulation; print each requirement, whether it is met, and the effect if not.

    Exit code 2: this machine cannot emulate.

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
        table("", ["requirement", "", "found", "effect"], rows)
        say(_verdict(report))
    raise typer.Exit(0 if report.usable else 2)


def _verdict(report: KernelReport) -> str:
    if not report.usable:
        return "This machine cannot emulate: see the first `no`."
    missing = [item.name for item in report.checks if not item.ok]
    if "lateness" in missing:
        return (
            "This machine can emulate, but it was late just now: end other work on it, or expect Runs that are marked "
            "not valid."
        )
    if missing:
        return f"This machine can emulate; missing: {', '.join(missing)} (effects above)."
    return "This machine can emulate; nothing is missing."
