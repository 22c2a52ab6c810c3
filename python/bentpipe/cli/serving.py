"""``bentpipe serving``: the serving satellite of each slot."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bentpipe.cli import options

if TYPE_CHECKING:
    from bentpipe.measurements.serving.matching import Answer
    from bentpipe.scenarios.sites import Place


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
    from bentpipe.cli.console import note, print_json, table
    from bentpipe.errors import UserError
    from bentpipe.scenarios.places import parse_place

    if method is Method.RTT and min_elevation is not None:
        raise UserError("--min-elevation: only for --method obstruction-map; rtt uses the terminals' own limit")
    if method is Method.OBSTRUCTION_MAP and gateway:
        raise UserError("--gateway: only for --method rtt; maps need no gateway")
    place = None if site is None else parse_place(site)
    if method is Method.RTT:
        answers = _by_rtt(out, elements, place, [parse_place(one) for one in gateway or ()])
    else:
        answers = _by_map(out, elements, place, min_elevation)
    if as_json:
        print_json([answer.to_dict() for answer in answers])
        return
    columns = ["slot_start", "norad_id", "name", "confidence", "runner_up", "distance_deg"]
    rows = [answer.to_dict() for answer in answers]
    table("", columns, [[row[column] for column in columns] for row in rows])
    named = [answer for answer in answers if answer.norad_id is not None]
    mean = sum(answer.confidence for answer in named) / max(len(named), 1)
    note(f"{len(answers)} slots; a satellite named in {len(named)}, with a mean confidence of {mean:.2f}")


def _by_map(out: Path, elements: Path, place: Place | None, min_elevation: float | None) -> list[Answer]:
    from dataclasses import replace

    from bentpipe.cli.console import note, progress, warn
    from bentpipe.errors import UserError
    from bentpipe.measurements.serving.elements import load_elements
    from bentpipe.measurements.serving.frames import vectors_to_sky
    from bentpipe.measurements.serving.inputs import read_maps
    from bentpipe.measurements.serving.matching import MIN_ELEVATION_DEG, by_map

    maps = read_maps(out)
    for line in maps.warnings:
        warn(line)
    place = place or maps.place
    if place is None:
        raise UserError(f"{out}: has no place of the terminal; expected --site")
    slots = maps.painted.slots
    if not slots:
        raise UserError(f"{out}: no map adds a track to the previous one; expected maps that are reset now and then")
    satellites, near = load_elements(elements, [slot.start_unix_ns for slot in slots])
    _warn_of_distant(int((~near).sum()), "slots")
    painted = replace(maps.painted, slots=[slot for slot, is_near in zip(slots, near, strict=True) if is_near])
    with progress("matching") as on_progress:
        answers, standing = by_map(
            painted,
            maps.frame,
            satellites,
            place,
            attitudes=maps.attitudes,
            min_elevation_deg=MIN_ELEVATION_DEG if min_elevation is None else min_elevation,
            on_progress=on_progress,
        )
    if standing is not None:
        azimuth, elevation = vectors_to_sky(standing.boresight)
        note(f"the map's centre points to azimuth {azimuth:.1f}, elevation {elevation:.1f} degrees")
    if maps.painted.silent:
        note(f"{maps.painted.silent} slots without a new track in the map are excluded")
    return answers


def _warn_of_distant(count: int, kind: str) -> None:
    from bentpipe.cli.console import warn
    from bentpipe.measurements.serving.elements import MAX_DAYS

    if count:
        warn(f"{count} {kind} are more than {MAX_DAYS:g} days from the elements' epoch and are excluded")


def _by_rtt(out: Path, elements: Path, place: Place | None, gateways: list[Place]) -> list[Answer]:
    from bentpipe.cli.console import progress
    from bentpipe.errors import UserError
    from bentpipe.measurements.serving.elements import load_elements
    from bentpipe.measurements.serving.inputs import read_pings
    from bentpipe.measurements.serving.rtt import by_rtt

    if place is None:
        raise UserError("--site: needed with --method rtt; pings do not record the terminal's place")
    pings = read_pings(out)
    satellites, near = load_elements(elements, pings.times_unix_ns)
    _warn_of_distant(int((~near).sum()), "probes")
    pings = pings.only(near)
    with progress("matching") as on_progress:
        return by_rtt(pings, satellites, place, gateways=gateways, on_progress=on_progress)
