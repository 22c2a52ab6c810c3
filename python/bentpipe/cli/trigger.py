"""``bentpipe trigger``: conditions on live signals that start experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Test conditions on live signals, which start experiments of the testbed.")

Format = Annotated[str, typer.Option("--format", metavar="table|json", help="How to print.")]
FORMATS = ("table", "json")


def _is_json(form: str) -> bool:
    from bentpipe.errors import UserError, shown

    if form not in FORMATS:
        raise UserError(shown(form), where="format", expected=" or ".join(FORMATS))
    return form == "json"


@app.command("test")
def dry_run(
    expression: Annotated[str, typer.Argument(help="The condition, as \"latency_ms > 2 * mean(latency_ms, '5s')\".")],
    recording: Annotated[
        Path,
        typer.Option(
            metavar="DATA",
            help="A recording of a terminal (folder or Parquet), a ping log, or a measured Run.",
        ),
    ],
    window: Annotated[str, typer.Option(help="Length of a window.")] = "1s",
    for_windows: Annotated[int, typer.Option("--for-windows", help="Windows in sequence that it must hold for.")] = 1,
    cooldown: Annotated[str, typer.Option(help="Least time between two firings.")] = "5m",
    run_bytes: Annotated[
        str | None,
        typer.Option(
            help="Bytes of the run that it starts, as 150MB: print the data that triggers save.", metavar="SIZE"
        ),
    ] = None,
    run_seconds: Annotated[float | None, typer.Option(help="Length of that run [s].")] = None,
    form: Format = "table",
) -> None:
    """Print when a trigger would have fired on a recording.

    Example: bentpipe trigger test "latency_ms > 2 * mean(latency_ms, '5s')" --recording ping.txt --window 500ms
    """
    from bentpipe.cli.console import note, print_json, say, table
    from bentpipe.scenarios.units import parse_size_bytes
    from bentpipe.testbed.agent.signals.dry_run import dry_run_trigger
    from bentpipe.testbed.agent.signals.dry_run_text import firing_rows, summary_lines
    from bentpipe.times import parse_duration_ns

    as_json = _is_json(form)
    result = dry_run_trigger(
        expression,
        recording,
        window_s=parse_duration_ns(window, "--window") / 1e9,
        for_windows=for_windows,
        cooldown_s=parse_duration_ns(cooldown, "--cooldown", least_ns=0) / 1e9,
        run_bytes=None if run_bytes is None else parse_size_bytes(run_bytes.strip().lower(), "--run-bytes"),
        run_seconds=run_seconds,
    )
    if as_json:
        print_json(result.to_dict())
        return
    if result.firings:
        table("firings", *firing_rows(result))
    for line in summary_lines(result):
        say(line)
    for each in result.notes:
        note(each)


@app.command()
def signals(form: Format = "table") -> None:
    """List the signals that conditions may use: unit, meaning, and the range outside of which a value is refused.

    Example: bentpipe trigger signals
    """
    from bentpipe.cli.console import print_json, table
    from bentpipe.testbed.agent.signals.dry_run import trigger_signals

    as_json = _is_json(form)
    rows = trigger_signals().to_dicts()
    if as_json:
        print_json({"signals": rows})
    else:
        cells = [
            [row["name"], row["unit"], row["meaning"], f"{row['least']:g} to {row['most']:g}", row["feed"]]
            for row in rows
        ]
        table("signals", ["name", "unit", "meaning", "range", "feed"], cells)
