"""Fit the access model's delay parameters: ``python tools/access_model DATA --steps 500``.

Prints the parameters that would be frozen (`crates/orbit/src/access/params.rs`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from fit import Target, fit

from bentpipe.errors import UserError
from bentpipe.validation.access_model.model import FITTED, frozen_params, get
from bentpipe.validation.access_model.pings import load_sites
from bentpipe.validation.access_model.slot_means import load


def main(
    data: Annotated[Path, typer.Argument(help="Folder with the ping campaigns.", show_default=False)],
    steps: Annotated[int, typer.Option(help="Evaluations of the loss, some seconds each.", min=0)] = 500,
) -> None:
    """Search from the frozen parameters and print what was found."""
    sites, days = load_sites(data), load(data)
    if sites is None or days is None:
        raise UserError(f"{data}: a ping campaign is missing; see python/bentpipe/validation/access_model/README.md")

    def report(step: int, best: float) -> None:
        if step % 50 == 49:
            typer.echo(f"{step + 1} of {steps}: loss {best:.4f}", err=True)

    params, best = fit(Target.of(sites[0], days), frozen_params(), steps, report)
    typer.echo(f"{len(FITTED)} parameters, loss {best:.4f}")
    for path in FITTED:
        typer.echo(f"{path} = {get(params, path):.4g}")


if __name__ == "__main__":
    typer.run(main)
