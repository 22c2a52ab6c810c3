"""What there is: controllers, sites, constellations, presets, policies, with one line and a source each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from bentpipe.errors import UserError

AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON list.")]


def cc(
    name: Annotated[str | None, typer.Argument(help="Only this one.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """List the congestion controllers `bentpipe race --cc` takes, and the tunables `--cc-opt` sets.

    Example:
        bentpipe cc
        bentpipe cc bbr2
    """
    from bentpipe import controllers
    from bentpipe.cli.console import table
    from bentpipe.runs.entrants import check_controller

    found = controllers()
    if name is not None:
        found = [entry for entry in found if entry["name"] == name.lower()]
        if not found:
            check_controller(name, "cc")
            raise UserError(f"cc: {name} is in Python; its tunables are the numbers among its class's attributes")
    _print(["name", "status", "description", "needs", "source"], found, as_json)
    if not as_json:
        columns = ["name", "unit", "default", "allowed", "meaning", "source"]
        for entry in found:
            if entry["tunables"]:
                rows = [[tunable[column] for column in columns] for tunable in entry["tunables"]]
                table(f"{entry['name']}: tunables", ["tunable", *columns[1:]], rows)


def sites(as_json: AsJson = False) -> None:
    """List the places that --site and --to take by name.

    Example:
        bentpipe sites
    """
    from bentpipe.scenarios import load_sites, sites_source

    rows = [
        {
            "name": place.name,
            "lat_deg": place.lat_deg,
            "lon_deg": place.lon_deg,
            "alt_m": place.alt_m,
            "pop": place.pop,
            "description": place.description,
            "source": sites_source(),
        }
        for place in load_sites().values()
    ]
    _print(["name", "lat_deg", "lon_deg", "alt_m", "pop", "description"], rows, as_json)
    if not as_json:
        typer.echo(f"Source: {sites_source()}")


def constellations(as_json: AsJson = False) -> None:
    """List the constellations that --constellation takes.

    Example:
        bentpipe constellations
    """
    from bentpipe.scenarios import constellation_names, load_constellation

    rows = [
        {
            "name": name,
            "satellites": found.satellites,
            "shells": len(found.shells),
            "description": found.description,
            "source": found.source,
        }
        for name in constellation_names()
        for found in [load_constellation(name)]
    ]
    _print(["name", "satellites", "shells", "description", "source"], rows, as_json)


def presets(as_json: AsJson = False) -> None:
    """List the paths that `bentpipe profile make --preset` takes: static ones, and published ones over satellites.

    Example:
        bentpipe presets
    """
    from bentpipe.scenarios import load_presets, load_services

    rows: list[dict[str, object]] = []
    for preset in load_presets().values():
        defaults = {key: parameter.default for key, parameter in preset.parameters.items()}
        as_text = ", ".join(f"{key}={value}" for key, value in defaults.items())
        rows.append(
            {
                "name": preset.name,
                "parameters": defaults if as_json else as_text,
                "description": preset.description,
                "source": preset.source,
            }
        )
    rows += [
        {
            "name": service.name,
            "parameters": {} if as_json else "",
            "description": service.description,
            "source": f"{service.source}. {service.chosen}",
        }
        for service in load_services().values()
    ]
    _print(["name", "parameters", "description", "source"], rows, as_json)


def policies(as_json: AsJson = False) -> None:
    """List the scheduling policies that `bentpipe profile make --policy` takes.

    Example:
        bentpipe policies
    """
    from bentpipe import orbit

    rows = [{"name": name, "description": description} for name, description in orbit.policies().items()]
    _print(["name", "description"], rows, as_json)


def _print(columns: list[str], rows: Sequence[Mapping[str, object]], as_json: bool) -> None:
    from bentpipe.cli.console import print_json, table

    if as_json:
        print_json(rows)
    else:
        table("", columns, [[row[column] for column in columns] for row in rows])
