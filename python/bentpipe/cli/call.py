"""`bentpipe call`: video calls over a path."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import options


def call(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Profiles or Networks (Parquet).", show_default=False)
    ],
    recovery: Annotated[
        str | None,
        typer.Option(help="Loss recovery inside the network, as in `race`. [default: none]", show_default=False),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            "--for",
            parser=options.duration,
            metavar="DURATION",
            help="Duration of each call: 60s, 5m. [default: that of the shortest path]",
            show_default=False,
        ),
    ] = None,
    max_rate: Annotated[str, typer.Option("--max-rate", help="Highest rate of the video.")] = "2.5mbit",
    fps: Annotated[int, typer.Option(min=1, max=240, help="Frames per second.")] = 30,
    seeds: Annotated[int, typer.Option(help="Number of seeds N: one Run for each of 0 … N−1.")] = 1,
    phase: Annotated[
        float | None,
        typer.Option(
            parser=options.duration,
            help="Offset in the path at which the call begins. [default: drawn from the seed]",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder for the Runs. [default: not kept]", show_default=False)
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Hold a video call over paths in the simulator: delay, jitter buffer, frame rate, and freezes.

    Example:
        bentpipe call P.parquet --for 5m --recovery none,satguard
    """
    from bentpipe.cli.console import print_json, progress, table
    from bentpipe.execution import calls
    from bentpipe.profiles.parquet import read_either
    from bentpipe.runs.estimates import estimate
    from bentpipe.runs.text import interval, number

    with progress("calling") as advance:
        every = calls.call(
            [read_either(path) for path in paths],
            app=f"call:max={max_rate},fps={fps}",
            duration_s=duration,
            seeds=seeds,
            phase_s=phase,
            recovery=recovery,
            out=out,
            on_progress=advance,
        )
    if as_json:
        print_json({"calls": [each.to_dict() for each in every]})
        return
    groups: dict[tuple[str, str, str], list[calls.CallResult]] = {}
    for each in every:
        where = each.profile if each.path == "path" else f"{each.profile}: {each.path}"
        groups.setdefault((where, each.scheme, each.direction), []).append(each)
    rows = []
    for group, own in groups.items():
        delay = estimate([each.delay_mean_ms for each in own])
        means = [
            estimate([getattr(each, name) for each in own]).mean
            for name in ("delay_p99_ms", "jitter_buffer_ms", "fps_mean", "fps_sd", "rate_bps")
        ]
        p99, buffer, rate, deviation, bps = (number(each) for each in [*means[:4], means[4] / 1e6])
        shown = [number(delay.mean), interval(delay), p99, buffer, f"{rate} ± {deviation}"]
        rows.append([*group, *shown, sum(each.freezes for each in own), bps, len(own)])
    heads = ["path", "recovery", "video", "delay [ms]", "95 % CI", "p99", "jitter buffer [ms]", "frames/s"]
    table("calls, simulated", [*heads, "freezes", "Mbit/s", "calls"], rows)
