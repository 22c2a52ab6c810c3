"""`bentpipe sky`: who is up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def sky(
    site: Annotated[
        str, typer.Option(help="Where: a name of `bentpipe sites`, or lat,lon[,alt_m].", show_default=False)
    ],
    at: Annotated[str, typer.Option(help="When: ISO-8601, UTC unless it has an offset.", show_default=False)],
    elements: Annotated[
        Path | None,
        typer.Option(help="Orbital elements: TLE, OMM (CSV, JSON, XML), plain or gzipped.", show_default=False),
    ] = None,
    constellation: Annotated[
        str | None,
        typer.Option(
            help="Built-in shells, of `bentpipe constellations`. [default: starlink-gen1]", show_default=False
        ),
    ] = None,
    min_elevation: Annotated[float, typer.Option(help="Lowest elevation [deg].")] = 25.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """List the satellites above a place at a moment, highest first.

    Example:
        bentpipe sky --site melbourne --at 2026-05-10T09:00:00Z --elements starlink.tle
    """
    from bentpipe import orbit
    from bentpipe.cli.console import note, print_json, table
    from bentpipe.scenarios import parse_place
    from bentpipe.times import parse_utc

    at_unix_ns = parse_utc(at, "--at")
    satellites = orbit.load_satellites(elements, constellation, at_unix_ns)
    up = orbit.sky(satellites, parse_place(site), at_unix_ns, min_elevation_deg=min_elevation)
    if as_json:
        print_json(up)
        return
    columns = ["norad_id", "name", "azimuth_deg", "elevation_deg", "range_km", "sunlit"]
    table("", columns, [[row[column] for column in columns] for row in up])
    note(f"{len(up)} of {len(satellites)} satellites stand above {min_elevation:g} degrees")
