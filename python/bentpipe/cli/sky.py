"""`bentpipe sky`: the satellites above a place."""

from __future__ import annotations

from typing import Annotated

import typer

from bentpipe.cli import options


def sky(
    site: Annotated[str, options.place(label="The observer")],
    at: Annotated[str, typer.Option(help="Time: ISO-8601, UTC unless it has an offset.", show_default=False)],
    elements: options.Elements = None,
    constellation: Annotated[str | None, options.shells("starlink-gen1")] = None,
    min_elevation: Annotated[float, typer.Option(help="Lowest elevation of a listed satellite [deg].")] = 25.0,
    as_json: options.AsJson = False,
) -> None:
    """List the satellites above a place at one time, highest first.

    Example:
        bentpipe sky --site melbourne --at 2026-05-10T09:00:00Z --elements starlink.tle
    """
    from bentpipe.cli.console import note, print_json, table
    from bentpipe.orbits.elements import load_satellites
    from bentpipe.orbits.sky import sky as satellites_above
    from bentpipe.scenarios.places import parse_place
    from bentpipe.times import parse_utc

    at_unix_ns = parse_utc(at, "--at")
    satellites = load_satellites(elements, constellation, at_unix_ns)
    up = satellites_above(satellites, parse_place(site), at_unix_ns, min_elevation_deg=min_elevation)
    if as_json:
        print_json(up)
        return
    columns = ["norad_id", "name", "azimuth_deg", "elevation_deg", "range_km", "sunlit"]
    table("", columns, [[row[column] for column in columns] for row in up])
    note(f"{len(up)} of {len(satellites)} satellites are above {min_elevation:g} degrees")
