"""``bentpipe predict``: predictors of latency and throughput."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import options

app = typer.Typer(no_args_is_help=True, help="Predict latency and throughput from past measurements; score predictors.")

Data = Annotated[
    list[Path],
    typer.Argument(
        metavar="DATA…",
        help="Recordings of a terminal, ping logs, tests of throughput, or measured Runs; of one kind of signal.",
    ),
]
Target = Annotated[str, typer.Option(metavar="latency|throughput", help="What to predict.")]


@app.command("list")
def list_models(as_json: options.AsJson = False) -> None:
    """List the models: what each predicts, what it uses, and where it is from.

    Example: bentpipe predict list
    """
    from bentpipe.cli.console import print_json, table
    from bentpipe.objects.prediction import predictors

    rows = predictors().to_dicts()
    if as_json:
        print_json({"models": rows})
    else:
        table("models", ["name", "description", "features", "source"], [list(row.values())[:4] for row in rows])


@app.command()
def score(
    data: Data,
    target: Target = "latency",
    horizon: Annotated[
        str, typer.Option(help="Horizons: 5s is the sample 5 s later, next15s the mean of the next 15 s.")
    ] = "1s,5s,15s",
    models: Annotated[
        str | None, typer.Option(help="Models of bentpipe predict list. [default: all]", show_default=False)
    ] = None,
    test: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DATA",
            help="Files to score on, of which nothing is trained. [repeatable] [default: the last 30 % of each DATA]",
            show_default=False,
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(help="Column of a Parquet file. [default: that of the signal]", show_default=False),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Train models on measurements and score them on later ones, beside holding the last value.

    Example: bentpipe predict score ping.txt --target latency --horizon 1s,5s
    """
    from bentpipe.cli.console import print_json, progress, table
    from bentpipe.objects.prediction import score_predictors
    from bentpipe.runs.text import number

    with progress("train and score") as advance:
        scores = score_predictors(
            data,
            target=target,
            horizons=horizon.split(","),
            models=models.split(",") if models else None,
            test=test or [],
            column=column,
            on_progress=advance,
        )
    rows = scores.to_dicts()
    if as_json:
        print_json({"rows": rows})
        return
    unit = "Mbit/s" if target == "throughput" else "ms"
    holds = {(row["data"], row["horizon"]): row["mape"] for row in rows if row["model"] == "hold"}
    table(
        f"{target}: error of predictions",
        [
            "data",
            "horizon",
            "model",
            "MAPE %",
            "to hold %",
            f"RMSE {unit}",
            "within 5 %",
            f"CRPS {unit}",
            "in 90 %",
            "n",
        ],
        [
            [
                row["data"],
                row["horizon"],
                row["model"],
                number(row["mape"]),
                f"{100 * (row['mape'] / hold - 1):+.0f}" if (hold := holds[row["data"], row["horizon"]]) else "–",
                number(row["rmse"]),
                f"{row['within_5']:.0f}",
                number(row["crps"]),
                f"{row['coverage_90']:.0f}",
                row["n"],
            ]
            for row in rows
        ],
    )
