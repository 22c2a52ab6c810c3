"""``bentpipe serving``: the serving satellite of each slot."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import options


class Method(StrEnum):
    """The data from which the serving satellite is inferred."""

    OBSTRUCTION_MAP = "obstruction-map"
    RTT = "rtt"


def serving(
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="A recording, a measured Run, maps or pings (docs/reference/serving.md)."),
    ],
    elements: Annotated[
        Path, typer.Option(help="Orbital elements of the day: TLE, OMM (CSV, JSON, XML), plain or gzipped.")
    ],
    method: Annotated[Method, typer.Option(help="Data to infer the satellite from.")] = Method.OBSTRUCTION_MAP,
    site: Annotated[str | None, options.place(label="Place of the terminal, if that is not recorded")] = None,
    gateway: Annotated[
        list[str] | None,
        typer.Option(help="rtt: place of a gateway, lat,lon. [repeatable]", show_default=False),
    ] = None,
    min_elevation: Annotated[
        float | None,
        typer.Option(help="obstruction-map: lowest elevation of a candidate [deg]. [default: 20]", show_default=False),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Identify each slot's serving satellite, with its confidence and the runner-up.

    Example: bentpipe serving out/dish --elements starlink.tle --site louvain
    """
    from bentpipe.cli.console import note, print_json, progress, table
    from bentpipe.objects.serving import serving as identify

    with progress("matching") as on_progress:
        result = identify(
            out,
            elements,
            method=method.value,
            site=site,
            gateways=gateway or (),
            min_elevation=min_elevation,
            on_progress=on_progress,
        )
    rows = [answer.to_dict() for answer in result]
    if as_json:
        print_json(rows)
        return
    for line in result.notes:
        note(line)
    columns = ["slot_start", "norad_id", "name", "confidence", "runner_up", "distance_deg"]
    table("", columns, [[row[column] for column in columns] for row in rows])
    named = [answer for answer in result if answer.norad_id is not None]
    mean = sum(answer.confidence for answer in named) / max(len(named), 1)
    note(f"{len(result)} slots; a satellite named in {len(named)}, with a mean confidence of {mean:.2f}")
