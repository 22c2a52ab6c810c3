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
            help="Offset in the path at which the call begins. [default: drawn within what --for leaves]",
            show_default=False,
        ),
    ] = None,
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--simulated",
            help="Two real Chromiums on the emulated path, in real time, or the simulator.",
            show_default="--simulated",
        ),
    ] = False,
    size: Annotated[
        str, typer.Option(metavar="WIDTHxHEIGHT", help="With --browser: size of the picture [pixels].")
    ] = "640x360",
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder for the Runs. [default: not kept]", show_default=False)
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Hold a video call over paths: delay, jitter buffer, frame rate, and freezes.

    Example:
        bentpipe call P.parquet --for 5m --recovery none,satguard

    Between two real browsers (needs Chromium, and `pip install 'bentpipe[browser]'`):
        bentpipe call P.parquet --for 60s --browser
    """
    from bentpipe.cli.console import print_json, progress, table, warn
    from bentpipe.cli.flags import renamed
    from bentpipe.errors import UserError
    from bentpipe.execution import calls
    from bentpipe.execution.browser_calls import Picture, call_browsers
    from bentpipe.experiments.apps import check_call_rate
    from bentpipe.experiments.recovery import split_recoveries
    from bentpipe.profiles.parquet import read_either, read_profile
    from bentpipe.runs.estimates import estimate
    from bentpipe.runs.text import interval, number
    from bentpipe.scenarios.units import parse_rate_bps

    max_bps = parse_rate_bps(max_rate, "--max-rate")
    check_call_rate(max_bps, "--max-rate")
    try:
        with progress("calling") as advance:
            if browser:
                if seeds != 1:
                    raise UserError("--seeds: the kernel's timing cannot be drawn; expected one call for each path")
                every = call_browsers(
                    [read_profile(path) for path in paths],
                    duration_s=60.0 if duration is None else duration,
                    picture=Picture(*_size(size), fps, max_bps),
                    recovery=["none"] if recovery is None else list(split_recoveries(recovery)),
                    offset_s=phase,
                    out=out,
                    on_progress=advance,
                )
            else:
                every = calls.call(
                    [read_either(path) for path in paths],
                    app=f"call:max={max_bps}bit,fps={fps}",
                    duration_s=duration,
                    seeds=seeds,
                    phase_s=phase,
                    recovery=recovery,
                    out=out,
                    on_progress=advance,
                )
    except UserError as error:
        raise renamed(error, {"duration": "--for", "duration_s": "--for"}) from None
    if invalid := sum(not each.valid for each in every):
        warn(f"{invalid} of {len(every)} rows are of Runs that are not valid: this machine was too busy")
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
    table(f"calls, {every[0].world}", [*heads, "freezes", "Mbit/s", "calls"], rows)


def _size(text: str) -> tuple[int, int]:
    """Parse ``640x360``. Raises `UserError`."""
    from bentpipe.errors import UserError

    width, _, height = text.partition("x")
    numbers = [int(part) for part in (width, height) if part.isascii() and part.isdigit() and len(part) < 5]
    if len(numbers) != 2 or not all(120 <= number <= 4096 for number in numbers):
        raise UserError(text, where="--size", expected="WIDTHxHEIGHT, each 120 to 4096, such as 640x360")
    return numbers[0], numbers[1]
