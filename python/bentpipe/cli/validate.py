"""``bentpipe validate``: hold our claims against their references."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def validate(
    name: Annotated[str, typer.Argument(help="A claim, or `all`.")] = "all",
    data: Annotated[
        Path | None, typer.Option(help="Folder with measurements; claims that need them are skipped without.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Hold a claim against its reference and print both. Slow: minutes.

    Example: bentpipe validate kernel-figures
    """
    from bentpipe import validation
    from bentpipe.cli.console import note, print_json, progress, table

    outcomes = []
    for claim in validation.CLAIMS if name == "all" else [name]:
        with progress(f"checking {claim}") as on_progress:
            outcomes.append(validation.check(claim, data, on_progress))
    if json:
        print_json({"claims": [outcome.to_dict() for outcome in outcomes]})
    else:
        for outcome in outcomes:
            if outcome.skipped:
                typer.echo(f"{outcome.claim}: skipped, {outcome.skipped}")
                continue
            rows = [[r.what, r.ours, r.reference, r.tolerance, "yes" if r.within else "NO"] for r in outcome.rows]
            table(outcome.claim, ["what", "ours", "reference", "tolerance", "within"], rows)
            for remark in outcome.notes:
                note(remark)
    if not all(outcome.holds for outcome in outcomes):
        raise typer.Exit(1)
