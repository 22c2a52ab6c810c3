"""`bentpipe video`: adaptive video over traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bentpipe.cli import options

if TYPE_CHECKING:
    from bentpipe.execution.video_gains import Gain

app = typer.Typer()


@app.callback(invoke_without_command=True)
def video(context: typer.Context) -> None:
    """Play adaptive video over traces and paths.

    Example:
        bentpipe video race TRACE.csv --policy robust-mpc,mpc-forecast
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def race(
    traces: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRACE...",
            help="Measured throughput (CSV), mahimahi traces, lines of seconds and Mbit/s, or Profiles (Parquet).",
            show_default=False,
        ),
    ],
    policy: Annotated[
        str, typer.Option(help="Policies, separated by commas.")
    ] = "robust-mpc,mpc,mpc-forecast,mpc-oracle,buffer,bola",
    buffer: Annotated[str, typer.Option(help="Buffer above which a player waits: 12s as live, 60s on demand.")] = "12s",
    video: Annotated[
        str, typer.Option(metavar="VIDEO", help="pensieve, a folder with video_size_0, … or a DASH manifest.")
    ] = "pensieve",
    windows: Annotated[str, typer.Option(metavar="DURATION", help="Length of the windows.")] = "240s",
    scale: Annotated[
        float, typer.Option(help="Median capacity of each window over the highest bitrate; 0: as it is.")
    ] = 1.0,
    dead: Annotated[
        float, typer.Option(min=0, max=1, help="Largest share of a window's seconds without capacity.")
    ] = 0.05,
    model: Annotated[str, typer.Option(help="Predictor of mpc-forecast, of `predict list`.")] = "ensemble",
    train: Annotated[
        list[Path] | None,
        typer.Option(help="Traces to train it on. [default: the half that a window is not in]", show_default=False),
    ] = None,
    later_half: Annotated[
        bool,
        typer.Option("--later-half", help="Play the second half of the traces alone: all training lies before it."),
    ] = False,
    cc: Annotated[
        str, typer.Option("--cc", help="Congestion controller of the server; with --browser one of the kernel's.")
    ] = "cubic",
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Largest number of windows, evenly spread over the traces. [default: all]", show_default=False
        ),
    ] = None,
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--simulated",
            help="A real dash.js player in Chromium on emulated paths, in real time, or the simulator.",
            show_default="--simulated",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Folder for the Runs of --browser. [default: not kept]", show_default=False),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Play a video with every policy over windows of traces, over TCP.

    Example:
        bentpipe video race drive.csv --policy robust-mpc,mpc,mpc-oracle --buffer 12s --scale 1

    In a real browser (needs Chromium, and `pip install 'bentpipe[browser]'`), 4 minutes for each window and policy:
        bentpipe video race drive.csv --policy robust-mpc,mpc --limit 3 --browser
    """
    from bentpipe.cli.console import note, print_json, progress, table, warn
    from bentpipe.cli.flags import renamed
    from bentpipe.errors import UserError
    from bentpipe.execution.video_gains import summarize
    from bentpipe.execution.videos import race_videos
    from bentpipe.runs.text import number

    if out is not None and not browser:
        raise UserError("only the Runs of a browser are kept", where="--out", expected="--browser with it")
    try:
        with progress("playing") as advance:
            raced = race_videos(
                traces,
                [each.strip() for each in policy.split(",") if each.strip()],
                video=video,
                buffer=buffer,
                windows=windows,
                rho=scale,
                most_dead=dead,
                model=model,
                training=train or (),
                later_half=later_half,
                cc=cc,
                limit=limit,
                browser=browser,
                out=out,
                on_progress=advance,
            )
    except UserError as error:
        own = {name: f"--{name}" for name in ("policy", "buffer", "windows", "scale", "cc", "limit")}
        own["models"] = "--model"
        raise renamed(error, own) from None
    if invalid := sum(not each.valid for each in raced.results):
        why = "this machine was too busy; the table leaves out their windows"
        warn(f"{invalid} of {len(raced.results)} Runs are not valid: {why}")
    if as_json:
        print_json({"rows": [each.to_dict() for each in raced.results]})
        return
    summaries = summarize(raced.results)
    rows = [
        [
            each.policy,
            *map(number, (each.qoe_median, each.qoe_mean, each.bitrate_mbps, each.stall_s, each.switches)),
            _gain(each.gain_median),
            _gain(each.gain_mean),
            "" if each.share_of_oracle is None else f"{each.share_of_oracle:.0%}",
        ]
        for each in summaries
    ]
    heads = ["policy", "QoE median", "QoE mean", "Mbit/s", "stall [s]", "switches"]
    gains = ["median over RobustMPC (95 % CI)", "mean over RobustMPC (95 % CI)", "of the oracle's gain"]
    heads += gains if any(each.gain_mean is not None for each in summaries) else []
    count = summaries[0].n
    title = f"{raced.video.name}, {count} {'window' if count == 1 else 'windows'}, {raced.results[0].world}"
    table(title, heads, [row[: len(heads)] for row in rows])
    if raced.left_out:
        note(f"{raced.left_out} windows left out: over {dead:.0%} of seconds without capacity, or missing (--dead)")
    if raced.video.is_generated:
        note("sizes of the chunks are generated around the bitrates")


def _gain(gain: Gain | None) -> str:
    return "" if gain is None else f"{gain.percent:+.0f} % ({gain.low:+.0f} to {gain.high:+.0f})"
