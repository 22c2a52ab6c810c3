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


@app.command(cls=options.ScoreCommand)
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
            metavar="DATA…",
            help="Files to score on, of which nothing is trained, up to the next option. "
            "[default: the last 30 % of each DATA]",
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
    from bentpipe.cli.console import print_json, printed_warnings, progress, table
    from bentpipe.objects.prediction import score_predictors
    from bentpipe.runs.text import number

    with printed_warnings(), progress("train and score") as advance:
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


@app.command()
def train(
    data: Data,
    out: Annotated[Path, typer.Option("-o", "--out", help="File for the model, such as M.model.")],
    model: Annotated[str, typer.Option(help="A model of bentpipe predict list.")] = "xgboost",
    target: Target = "latency",
    horizon: Annotated[str, typer.Option(help="Horizon: 5s, or next15s for a mean.")] = "5s",
    column: Annotated[
        str | None,
        typer.Option(help="Column of a Parquet file. [default: that of the signal]", show_default=False),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Train a model on measurements and write it: arrays and metadata, no code.

    Example: bentpipe predict train RECORDING --horizon next15s -o M.model
    """
    from bentpipe.cli.console import print_json, printed_warnings, progress, say
    from bentpipe.objects.prediction import Predictor

    with printed_warnings(), progress("train"):
        record = Predictor.train(data, out, model=model, target=target, horizon=horizon, column=column).record
    if as_json:
        print_json(record.model_dump(mode="json"))
        return
    hours = (record.span_s[1] - record.span_s[0]) / 3600
    clock = record.features.slot
    say(f"{out}: {record.model} of {record.signal}, {record.horizon} ahead, a sample each {record.features.step_s:g} s")
    say(f"  trained on {record.rows} rows over {hours:.1f} h of {', '.join(record.files)}")
    edges = "none found: without features of slots"
    if clock is not None:
        edges = f"edges at {clock.phase_s:.1f} s of every {clock.period_s:g} s"
    say(f"  slot clock: {edges}")
    say(f"  with {', '.join(f'{name} {version}' for name, version in record.versions.items())}")


@app.command()
def handovers(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Pings with slots: a log, or a measured Run.")],
    over: Annotated[
        float, typer.Option(help="Step whose probability is printed [ms]: the next slot's level differs by more.")
    ] = 10.0,
    slots: Annotated[int, typer.Option(help="Number of slots to draw from the model with --draw.")] = 20,
    draw: Annotated[
        int | None,
        typer.Option(metavar="SEED", help="Print slots drawn with this seed. [default: the model]", show_default=False),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Learn when handovers come, how large their steps are, and how long their gaps.

    Example: bentpipe predict handovers ping.txt --over 10
    """
    import time

    from bentpipe.cli.console import print_json, say, table
    from bentpipe.objects.prediction import handover_model
    from bentpipe.predict.handovers import describe, generate_handovers

    model = handover_model(data)
    if draw is not None:
        rows = generate_handovers(model, slots, draw, time.time()).to_dicts()
        if as_json:
            print_json({"slots": rows})
        else:
            names = ["edge_s", "gap_ms", "level_ms", "step_ms"]
            table(
                "slots",
                names,
                [[f"{row[each]:.1f}" if row[each] is not None else "" for each in names] for row in rows],
            )
        return
    summary = describe(model, over, time.time())
    if as_json:
        print_json({**summary, "model": model.model_dump(mode="json")})
        return
    say(f"{data}: edges every {model.period_s:g} s, from {model.edges} edges with pings on both sides")
    say(f"  next edge in {summary['in_s']:.1f} s from now, error {summary['error_s']:.2f} s")
    likely = f"{summary['step_probability']:.0%} after a slot of {model.median_ms:.1f} ms"
    say(f"  step over {over:g} ms at the next edge: {likely}")
    step, gap = summary["step_ms"], summary["gap_ms"]
    say(f"  step: median {step['p50']:.1f} ms, 95th percentile {step['p95']:.1f} ms")
    say(f"  gap: median {gap['p50']:.0f} ms, 95th percentile {gap['p95']:.0f} ms")
    say(f"  high slots: {model.high_after_usual:.0%} after usual ones, {model.high_after_high:.0%} after high ones")


@app.command()
def forecast(
    model: Annotated[Path, typer.Argument(metavar="M.model", help="A model of bentpipe predict train.")],
    data: Annotated[
        Path | None, typer.Argument(metavar="[DATA]", help="A measurement; not with --dish.", show_default=False)
    ] = None,
    dish: Annotated[
        str | None,
        typer.Option(metavar="HOST[:PORT]", help="Follow a terminal. [default: DATA]", show_default=False),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print a line for each forecast, not only for the newest.")
    ] = False,
    retrain: Annotated[
        bool,
        typer.Option("--retrain", help="With --dish: after errors have risen, train another model on what was seen."),
    ] = False,
    for_s: Annotated[
        float | None,
        typer.Option(
            "--for", parser=options.duration, help="With --dish: duration. [default: until Ctrl-C]", show_default=False
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Forecast a signal: quantiles, and the time that they are for.

    Example: bentpipe predict forecast M.model RECORDING
    """
    import sys

    from bentpipe.cli.console import note, print_json, printed_warnings, say
    from bentpipe.errors import UserError
    from bentpipe.objects.prediction import Predictor
    from bentpipe.predict.live import follow_dish
    from bentpipe.predict.store import load_model
    from bentpipe.predict.text import forecast_line, forecast_rows

    if (data is None) == (dish is None):
        raise UserError("DATA or --dish: one of the two", expected="bentpipe predict forecast M.model RECORDING")
    if data is None:
        has_forecast = False
        note("the first forecast comes after 15 s of telemetry")
        for each in follow_dish(load_model(model), dish, for_s, note, retrains=retrain):
            has_forecast = True
            say(forecast_line(each, as_json=as_json))
            sys.stdout.flush()
            if not follow and for_s is None:
                return
        if not has_forecast:
            raise UserError("no forecast", where=str(dish), expected="15 s or more of telemetry", hint="a longer --for")
        return
    if retrain:
        raise UserError("--retrain", expected="--dish HOST, or `bentpipe predict drift --retrain`")
    predictor = Predictor.load(model)
    with printed_warnings():
        rows = forecast_rows(predictor.forecast(data), newest_only=not follow)
    if not rows:
        raise UserError("has too little history", where=str(data), expected="15 s or more without a long gap")
    if as_json:
        print_json({"model": predictor.record.model_dump(mode="json"), "forecasts": rows})
        return
    unit = "Mbit/s" if predictor.record.signal == "goodput_mbps" else "ms"
    for row in rows:
        say(forecast_line(row, unit=unit))


@app.command()
def drift(
    model: Annotated[Path, typer.Argument(metavar="M.model", help="A model of bentpipe predict train.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A measurement that the model was not trained on.")],
    retrain: Annotated[
        bool, typer.Option("--retrain", help="After an alarm, train another model on what was seen until then.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Follow a measurement and tell when the model's errors have risen.

    Example: bentpipe predict drift M.model RECORDING
    """
    from bentpipe.cli.console import print_json, printed_warnings, say, table
    from bentpipe.objects.prediction import Predictor
    from bentpipe.times import format_utc

    with printed_warnings():
        rows = Predictor.load(model).drift(data, retrain=retrain).to_dicts()
    if as_json:
        print_json({"changes": rows})
        return
    if not rows:
        say(f"{data}: no drift: errors have not risen")
        return
    heads = ["time", "", "error before", "after", "why"]
    cells = [
        [
            format_utc(round(row["at_s"] * 1e9)),
            row["kind"],
            *("" if row[each] is None else f"{row[each]:.3g}" for each in ("before", "after")),
            row["why"],
        ]
        for row in rows
    ]
    table("errors of the median, relative", heads, cells)
