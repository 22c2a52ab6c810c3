"""``bentpipe validate``: check claims against their references."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def validate(
    name: Annotated[str, typer.Argument(help="Name of a claim, or `all`.")] = "all",
    data: Annotated[
        Path | None, typer.Option(help="Folder with measurements. [default: skip the claims that need them]")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            help="Shorter: fewer and shorter measurements (sim-vs-kernel, calls, applications, access-model,"
            " kernel-clock, kernel-life, kernel-safety, kernel-safety-emulated, kernel-twins, testbed-latency)."
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            help="sim-vs-kernel, calls, applications, kernel-clock, kernel-safety-emulated, kernel-twins,"
            " testbed-latency: folder. [default: out/NAME]",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check a claim against its reference and print both. Takes minutes; sim-vs-kernel takes hours.

    Not in `all`: applications, calls, kernel-clock, kernel-life, kernel-safety-emulated, kernel-twins, nodes and
    sim-vs-kernel, which need an idle machine or root.

    Exits with 1 if a claim does not hold. A claim that is skipped does not count, unless the environment variable
    BENTPIPE_REQUIRE has what it lacks: `data` (measurements), `emu` (emulation), or both with a comma.

    Example: bentpipe validate kernel-figures
    """
    from bentpipe import validation
    from bentpipe.cli.console import note, print_json, progress, say, table
    from bentpipe.runs.made_on import made_on

    outcomes = []
    every = [claim for claim in validation.CLAIMS if claim not in validation.BY_NAME_ONLY]
    for claim in every if name == "all" else [name]:
        if claim in validation.MEASURED_HERE:
            note(validation.real_time(claim, quick=quick))
        with progress(f"checking {claim}") as on_progress:
            outcomes.append(validation.check(claim, data, on_progress, quick=quick, out=out))
    if json:
        cells = [cell for outcome in outcomes for cell in outcome.cells or ()]
        claims = [outcome.to_dict() for outcome in outcomes]
        print_json({**({"cells": cells} if cells else {}), "claims": claims, "made_on": made_on()})
    else:
        for outcome in outcomes:
            if outcome.skipped:
                required = "; BENTPIPE_REQUIRE asks for it, so this is a failure" if outcome.fails else ""
                say(f"{outcome.claim}: skipped, {outcome.skipped}{required}")
                continue
            verdict = {True: "yes", False: "NO", None: "–"}
            rows = [[r.quantity, r.ours, r.reference, r.tolerance, verdict[r.within]] for r in outcome.rows]
            table(outcome.claim, ["quantity", "ours", "reference", "tolerance", "within"], rows)
            for remark in outcome.notes:
                note(remark)
    if any(outcome.fails for outcome in outcomes):
        raise typer.Exit(1)
