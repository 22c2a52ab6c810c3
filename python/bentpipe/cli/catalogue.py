"""Catalogues of controllers, sites, constellations, presets, policies and loss environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from bentpipe.cli import options
from bentpipe.errors import UserError

AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON list.")]


def cc(
    name: Annotated[str | None, typer.Argument(help="Only this controller. [default: all]", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """List the congestion controllers `bentpipe race --cc` takes, and the tunables `--cc-opt` sets.

    Example:
        bentpipe cc bbr2
    """
    from bentpipe import controllers
    from bentpipe.experiments.schemes import check_controller

    entries = controllers()
    if name is not None:
        entries = [entry for entry in entries if entry["name"] == name.lower()]
        if not entries:
            check_controller(name, "cc")
            raise UserError(f"cc: {name} is a Python controller; its tunables are its class's numeric attributes")
    _print(["name", "status", "description", "needs", "source"], entries, as_json)
    _print_tunables(entries, as_json)


def recovery(as_json: AsJson = False) -> None:
    """List the schemes of loss recovery that `bentpipe race --recovery` takes, and their tunables.

    Example:
        bentpipe recovery
    """
    from bentpipe.experiments.recovery import recovery_schemes

    entries = recovery_schemes()
    _print(["name", "status", "description", "source"], entries, as_json)
    _print_tunables(entries, as_json)


def _print_tunables(entries: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    from bentpipe.cli.console import table

    if not as_json:
        columns = ["name", "unit", "default", "allowed", "meaning", "source"]
        for entry in entries:
            if entry["tunables"]:
                rows = [[tunable[column] for column in columns] for tunable in entry["tunables"]]
                table(f"{entry['name']}: tunables", ["tunable", *columns[1:]], rows)


def sites(gateways: options.Gateways = None, as_json: AsJson = False) -> None:
    """List the sites that --site and --to take by name, with gateways in reach and coverage.

    Cover is the share of slots in which a satellite of starlink-gen1 sees the site and a gateway; lasers says that
    inter-satellite links serve the other slots.

    Example:
        bentpipe sites
    """
    from bentpipe.cli.console import progress, say
    from bentpipe.objects import catalogue
    from bentpipe.profiles.coverage import SLOTS, coverage_text
    from bentpipe.scenarios.sites import sites_source

    with progress("coverage of the sites") as advance:
        rows = catalogue.site_rows(gateways, advance)
    if as_json:
        _print([], rows, as_json)
    else:
        # Altitudes only in the JSON, and no column for IATA codes: a terminal of 80 columns has no room for them.
        for row in rows:
            row["description"] += f" ({', '.join(row['iata'])})" if row["iata"] else ""
            row["cover"] = coverage_text(row["coverage_percent"], row["coverage_with_lasers_percent"])
            row["lat,lon"] = f"{row['lat_deg']:g},{row['lon_deg']:g}"
        _print(["name", "lat,lon", "pop", "gateways", "cover", "description"], rows, as_json)
        say(f"Cover: share of {SLOTS} slots of a day in which a satellite sees the site and a gateway")
        say("lasers: no gateway is in reach; as in slots beyond the share, paths lead over inter-satellite links")
        say(f"Source: {sites_source()}")


def constellations(as_json: AsJson = False) -> None:
    """List the constellations that --constellation takes.

    Example:
        bentpipe constellations
    """
    from bentpipe.objects import catalogue

    rows = catalogue.constellations()
    _print(["name", "satellites", "shells", "description", "source"], rows, as_json)


def presets(as_json: AsJson = False) -> None:
    """List the paths that `bentpipe profile make --preset` takes: static paths and published satellite services.

    Example:
        bentpipe presets
    """
    from bentpipe.objects import catalogue

    rows = catalogue.presets()
    if not as_json:
        for row in rows:
            row["parameters"] = ", ".join(f"{key}={value}" for key, value in row["parameters"].items())
    _print(["name", "parameters", "description", "source"], rows, as_json)


def loss(as_json: AsJson = False) -> None:
    """List the loss environments that --loss takes: how much a path loses and how, after which source.

    Lost: share of packets in a direction, mean of both, over all hours; at slot edges: within a second of one.

    Example:
        bentpipe loss
        bentpipe profile make --site london --to new-york --loss satguard -o P.parquet
    """
    from bentpipe.objects import catalogue

    rows = catalogue.losses()
    if not as_json:
        for row in rows:
            level = row["level"]
            lost, seconds, edges = (100 * level[key] for key in ("lost", "lossy_seconds", "lost_at_edges"))
            episodes = f"{level['episodes_per_s']:.3g} episodes/s, in {seconds:.3g} % of seconds"
            if seconds == 100:
                episodes = "each packet for itself"
            row["level"] = f"{lost:.3g} % lost, {edges:.3g} % at slot edges; {episodes}"
            row["fitted to"] = row["fitted_to"]
    _print(["name", "level", "description", "source", "fitted to"], rows, as_json)


def policies(as_json: AsJson = False) -> None:
    """List the scheduling policies that `bentpipe profile make --policy` takes.

    Example:
        bentpipe policies
    """
    from bentpipe.objects import catalogue

    rows = catalogue.policies()
    _print(["name", "description"], rows, as_json)


def _print(columns: list[str], rows: Sequence[Mapping[str, object]], as_json: bool) -> None:
    from bentpipe.cli.console import print_json, table

    if as_json:
        print_json(rows)
    else:
        table("", columns, [[row[column] for column in columns] for row in rows])
