"""`bentpipe route`: the shortest path between two places through a constellation."""

from __future__ import annotations

from typing import Annotated

import typer

from bentpipe.cli import options
from bentpipe.errors import UserError


def route(
    origin: Annotated[str, options.place("--from", label="One end")],
    to: Annotated[str, options.place("--to", label="The other end")],
    start: options.Start = None,
    duration: Annotated[float, typer.Option(parser=options.duration, help="Duration: 6000 (seconds), 100m.")] = 6000.0,
    step: Annotated[
        float, typer.Option(parser=options.duration, help="Interval between routes: 1 (second), 500ms.")
    ] = 1.0,
    constellation: Annotated[str | None, options.shells("starlink-s1")] = None,
    elements: options.Elements = None,
    isl: Annotated[
        str | None,
        typer.Option(
            help="Links between satellites: grid:PLANESxPER_PLANE (plane-major order of the file) or none. "
            "[default: the constellation's own; with --elements none]",
            show_default=False,
        ),
    ] = None,
    min_elevation: Annotated[float, typer.Option(help="Lowest elevation of a usable satellite [deg].")] = 25.0,
    as_json: options.AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV: t_s,rtt_ms,hops,satellites.")] = False,
) -> None:
    """Find the shortest path between two places at each time step: RTT, hops, satellites.

    Example:
        bentpipe route --constellation starlink-s1 --from 59.93,30.36 --to -22.90,-43.17 --start 2026-05-10T09:00:00Z
        --duration 60 --csv
    """
    from bentpipe.cli.console import note, print_json, progress, say, table
    from bentpipe.orbits import routes
    from bentpipe.scenarios.places import parse_place
    from bentpipe.times import DEFAULT_START_UTC, parse_utc

    if as_json and as_csv:
        raise UserError("--json and --csv cannot be given together; expected one of them or neither")
    start_unix_ns = None if start is None else parse_utc(start, "--start")
    if start is None and elements is None:
        note(f"no --start given: routes begin at {DEFAULT_START_UTC}")
    with progress("finding routes") as advance:
        paths = routes.route(
            parse_place(origin),
            parse_place(to),
            start_unix_ns=start_unix_ns,
            duration_s=duration,
            step_s=step,
            elements=elements,
            constellation=constellation,
            isl=isl,
            min_elevation_deg=min_elevation,
            on_progress=advance,
        )
    if as_json:
        print_json(paths.to_rows())
    elif as_csv:
        say(paths.to_csv(), end="")
    else:
        rows = [
            [row["t_s"], row["rtt_ms"], row["hops"], " ".join(map(str, row["satellites"]))] for row in paths.to_rows()
        ]
        table("", ["t_s", "rtt_ms", "hops", "satellites"], rows)
