"""``bentpipe study``: published experiments, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import options

app = typer.Typer(no_args_is_help=True, help="Published experiments, run again: their figures beside ours.")


@app.command("list")
def list_(as_json: options.AsJson = False) -> None:
    """List the studies with what they repeat and how long they take.

    Example: bentpipe study list
    """
    from bentpipe.cli.console import print_json, table
    from bentpipe.studies import STUDIES, find_study

    columns = ["name", "title", "takes", "measured", "source"]
    rows = [{column: getattr(study, column) for column in columns} for study in map(find_study, STUDIES)]
    if as_json:
        print_json(rows)
    else:
        table("", columns, [list(row.values()) for row in rows])


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="A study of `bentpipe study list`.", show_default=False)],
    quick: Annotated[bool, typer.Option(help="Less of everything: seconds to a minute, rougher figures.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Measurements to take in place of simulated probes: see the guide.", show_default=False),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            help="A Dask scheduler for studies of many Runs: tcp://host:8786. [default: this machine]",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", help="Folder for figures, table and page. [default: out/studies/NAME]", show_default=False
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a study: the published value, ours, the ratio, what holds, and the published figure drawn from ours.

    Example: bentpipe study run huston-ping --quick
    """
    from bentpipe.cli.console import note, print_json, progress, table
    from bentpipe.studies.running import cells, run_study

    with progress(name) as on_progress:
        folder = out or Path("out/studies") / name
        done = run_study(name, folder, quick=quick, data=data, on_progress=on_progress, on=on)
    if as_json:
        print_json(done.to_dict())
        return
    head = ["quantity", "unit", "published", "ours", "ratio", "source", "ours from"]
    table(done.study.title, head, [cells(row) for row in done.result.rows])
    said = {True: "yes", False: "NO", None: "–"}
    head = ["statement", "holds", "by", "source", "ours from"]
    for title, verdicts in (
        ("What the publication says", done.result.verdicts),
        ("What would have to be different", done.result.counterfactuals),
    ):
        if verdicts:
            table(title, head, [[v.statement, said[v.holds], v.why, v.source, v.basis] for v in verdicts])
    for line in (*done.result.basis, *done.result.notes):
        note(line)
    for file in done.figures.values():
        note(f"figure: {file}")
    note(f"page: {done.page}")
