"""``bentpipe study``: reproductions of published experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import options

app = typer.Typer(no_args_is_help=True, help="Reproduce published experiments: their figures beside ours.")


@app.command("list")
def list_(as_json: options.AsJson = False) -> None:
    """List the studies, the publication each reproduces, and their run time.

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
    name: Annotated[str, typer.Argument(help="Name of a study, of `bentpipe study list`.", show_default=False)],
    quick: Annotated[bool, typer.Option(help="Fewer and shorter Runs: seconds to a minute, larger errors.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Measurements that replace simulated probes (see the guide). [default: simulate]", show_default=False
        ),
    ] = None,
    on: options.On = None,
    trials: Annotated[
        int | None,
        typer.Option(help="Trials in real time, of t3p-trigger. [default: the study's own]", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", help="Folder for figures, table and page. [default: out/studies/NAME]", show_default=False
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a study; print published and reproduced values, and draw the published figure from our data.

    Example: bentpipe study run huston-ping --quick
    """
    from bentpipe.cli.console import note, print_json, progress, table
    from bentpipe.studies.running import ORDER_COLUMNS, cells, order_cells, run_study

    with progress(name) as on_progress:
        folder = out or Path("out/studies") / name
        done = run_study(name, folder, quick=quick, data=data, on_progress=on_progress, on=on, trials=trials)
    if as_json:
        print_json(done.to_dict())
        return
    head = ["quantity", "unit", "published", "ours", "ratio", "source", "ours from"]
    table(done.study.title, head, [cells(row) for row in done.result.rows])
    verdict = {True: "yes", False: "NO", None: "–"}
    head = ["statement", "holds", "by", "source", "ours from"]
    for title, verdicts in (
        ("Statements of the publication", done.result.verdicts),
        ("Counterfactuals", done.result.counterfactuals),
    ):
        if verdicts:
            table(title, head, [[v.statement, verdict[v.holds], v.why, v.source, v.basis] for v in verdicts])
    if done.result.orders:
        table("Order by level of loss", list(ORDER_COLUMNS), [order_cells(level) for level in done.result.orders])
    for line in (*done.result.basis, *done.result.notes):
        note(line)
    for file in done.figures.values():
        note(f"figure: {file}")
    note(f"page: {done.page}")
