"""``bentpipe dish``: watch, record and simulate a user terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bentpipe.cli import options
from bentpipe.cli.options import PlaceCommand

if TYPE_CHECKING:
    from bentpipe._native import Profile
    from bentpipe.measurements.dish.following import Change

app = typer.Typer(help="Watch, record and simulate a Starlink user terminal.", no_args_is_help=True)

Host = Annotated[str, typer.Option(help="The terminal: HOST, HOST:PORT, or http://HOST[:PORT] for gRPC-Web.")]
DEFAULT_HOST = "192.168.100.1:9200"


@app.command(cls=PlaceCommand)
def watch(
    host: Host = DEFAULT_HOST,
    every: Annotated[
        float, typer.Option(parser=options.duration, help="Interval between samples, such as 1s or 500ms.")
    ] = 1.0,
    for_s: options.For = None,
    elements: Annotated[
        Path | None,
        typer.Option(
            help="Orbital elements: TLE, OMM (CSV, JSON, XML), plain or gzipped. [default: no serving satellite]",
            show_default=False,
        ),
    ] = None,
    site: Annotated[
        str | None, options.place(label="Place of the terminal, if it does not report one; for --elements")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON per sample.")] = False,
) -> None:
    """Show a terminal live: latency, drops, throughput, alignment, obstruction, next slot edge.

    With --elements also the serving satellite.

    In a pipe, prints a line per sample. Waits for a terminal that does not answer. Ctrl-C ends it.

    Example: bentpipe dish watch --host 192.168.100.1:9200
    """
    import json
    import sys

    from bentpipe.cli.console import note, say
    from bentpipe.measurements.dish.extra import require_extra

    require_extra()
    from bentpipe.measurements.dish.client import DishClient
    from bentpipe.measurements.dish.clocks import WallClock
    from bentpipe.measurements.dish.display import LiveTable, Watcher, live, place_of
    from bentpipe.measurements.dish.following import Follower

    client, clock, picture = DishClient(host), WallClock(), LiveTable()
    is_live = sys.stdout.isatty() and not as_json

    def changed(change: Change) -> None:
        picture.add_change(change) if is_live else note(change.text)

    serving = None
    if elements is not None:
        from bentpipe.measurements.serving.live import LiveEstimator
        from bentpipe.orbits.elements import load_satellites

        satellites = load_satellites(elements, None, clock.now_unix_ns())
        serving = LiveEstimator(satellites, place_of(client, site))
    watcher = Watcher(client, serving)
    follower = Follower(client, clock, every, changed)
    with live(picture, shown=is_live):
        for sample in follower.samples(until_s=for_s):
            seen = watcher.observe(sample)
            picture.add_observation(seen)
            if not is_live:
                say(json.dumps(seen.to_dict()) if as_json else seen.to_line())
                sys.stdout.flush()


@app.command()
def record(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the recording; an existing one is continued.")],
    host: Host = DEFAULT_HOST,
    every: Annotated[
        float, typer.Option(parser=options.duration, help="Interval between samples, such as 1s or 500ms.")
    ] = 1.0,
    map_every: Annotated[
        float, typer.Option(parser=options.duration, help="Interval between obstruction maps; 0: none.")
    ] = 15.0,
    for_s: options.For = None,
) -> None:
    """Record a terminal's samples and obstruction maps. A power cut loses at most the last second.

    Gaps shorter than 15 minutes are filled from the terminal's own history. About 4 MB a day.

    Example: bentpipe dish record --every 1 -o out/dish
    """
    from bentpipe.cli.console import note
    from bentpipe.measurements.dish.extra import require_extra

    require_extra()
    from bentpipe.measurements.dish.client import DishClient
    from bentpipe.measurements.dish.clocks import WallClock
    from bentpipe.measurements.dish.recording.recorder import Recorder

    recorder = Recorder(
        DishClient(host),
        out,
        WallClock(),
        every_s=every,
        map_every_s=map_every,
        on_change=lambda change: note(change.text),
    )
    note(f"{out}: {recorder.run(for_s)} samples")


@app.command()
def simulate(
    profile: Annotated[
        Path | None,
        typer.Option(help="Profile of the path behind the terminal. [default: a generated one]", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of gRPC; 0: a free one, which is printed.")] = 9200,
    web_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port of gRPC-Web; 0: a free one. [default: --port + 1, or a free one if that is taken]",
            show_default=False,
        ),
    ] = None,
    address: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    firmware: Annotated[int, typer.Option(help="Firmware year, which decides the fields served.")] = 2026,
    start: Annotated[
        str | None,
        typer.Option(help="Start of the Profile, ISO-8601. [default: now, aligned to slots]", show_default=False),
    ] = None,
    uptime: Annotated[int, typer.Option(help="Uptime at the start [s].")] = 3600,
    load: Annotated[float, typer.Option(help="Share of the capacity that its users take, 0 to 1.")] = 0.05,
    speed: Annotated[float, typer.Option(help="Speed of its clock; 1: real time.")] = 1.0,
    location: Annotated[bool, typer.Option("--location", help="Report its location. [default: do not]")] = False,
    interface: Annotated[
        str | None,
        typer.Option(help="Report the rates of this interface. [default: those of --load]", show_default=False),
    ] = None,
) -> None:
    """Simulate a terminal for Starlink tools: the same gRPC service with reflection, values from a Profile.

    Ctrl-C ends it.

    Example: bentpipe dish simulate --profile P.parquet --port 9200 --firmware 2025
    """
    from bentpipe.cli.console import note, progress, say
    from bentpipe.measurements.dish.extra import require_extra

    require_extra()
    from bentpipe.measurements.dish.clocks import FastClock, WallClock
    from bentpipe.measurements.dish.simulation.environment import DishEnvironment, default_profile
    from bentpipe.measurements.dish.simulation.server import serve
    from bentpipe.measurements.dish.simulation.terminal import Terminal
    from bentpipe.profiles.parquet import read_profile
    from bentpipe.times import parse_utc

    clock = WallClock() if speed == 1 else FastClock(speed)
    path: Profile
    if profile is not None:
        path = read_profile(profile)
    else:
        with progress("making a Profile") as on_progress:
            path = default_profile(clock.now_unix_ns(), on_progress)
        note(f"no --profile given: {path.name}, {path.duration_s:g} s, repeated")
    terminal = Terminal(
        DishEnvironment(path, load),
        clock,
        firmware=firmware,
        start_unix_ns=None if start is None else parse_utc(start, "--start"),
        uptime_s=uptime,
        allow_location=location,
    )
    if interface is not None:
        terminal.follow_interface(interface)
    server = serve(terminal, address, port, web_port)
    say(f"{address}:{server.port}")
    say(f"http://{address}:{server.web_port}")
    note(f"a terminal with firmware of {firmware} answers at these addresses; Ctrl-C ends it")
    try:
        server.wait()
    finally:
        server.stop()
