"""`bentpipe network`: make, show and draw Networks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import options
from bentpipe.errors import UserError
from bentpipe.seeds import LARGEST_SEED

app = typer.Typer()

Source = Annotated[Path, typer.Argument(metavar="NETWORK", help="A Network (Parquet).", show_default=False)]
At = Annotated[float, typer.Option("--at", parser=options.duration, help="Time in the Network: 30 (seconds), 2m.")]


@app.callback(invoke_without_command=True)
def network(context: typer.Context) -> None:
    """Make, show and draw Networks: many paths over one constellation, in one Parquet file.

    Example:
        bentpipe network make --pairs SYD-NYC,LON-JNB --duration 60 -o N.parquet
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def make(
    pairs: Annotated[
        str,
        typer.Option(
            help="The paths: terminal and ground station each, by name or IATA code of `bentpipe sites`, as in "
            "SYD-NYC,LON-JNB.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The file to write.", show_default=False)],
    start: options.Start = None,
    duration: Annotated[
        float,
        typer.Option(parser=options.duration, help="Duration: 300 (seconds), 300s, 5m.", show_default="300s"),
    ] = 300.0,
    elements: options.Elements = None,
    constellation: Annotated[str | None, options.shells("starlink-s1")] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Policy that selects the satellite of each place, of `bentpipe policies`; least-delay takes both ends "
            "of each path's shortest route. [default: nearest]",
            show_default=False,
        ),
    ] = None,
    capacity: Annotated[
        str | None,
        typer.Option(
            help="Capacity of links between satellites (isl) and to the ground (gsl). [default: isl=1gbit,gsl=1gbit]",
            show_default=False,
        ),
    ] = None,
    queue: Annotated[
        float,
        typer.Option(
            parser=options.duration,
            help="Limit of each queue, as time at its link's capacity; at least 15 kB.",
            show_default="13.2ms",
        ),
    ] = 0.0132,
    gap: Annotated[
        float,
        typer.Option(parser=options.duration, help="How long a place has no link at a handover.", show_default="50ms"),
    ] = 0.05,
    loss: Annotated[
        str | None,
        typer.Option(
            help="Loss environment of the terminals' links, of `bentpipe loss`. [default: no loss]", show_default=False
        ),
    ] = None,
    isl_loss: Annotated[
        float, typer.Option("--isl-loss", help="Probability that a packet is lost in a link between satellites.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of every random process.", min=0, max=LARGEST_SEED)] = 0,
    name: Annotated[
        str | None, typer.Option(help="The Network's name. [default: its pairs]", show_default=False)
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Make a Network: terminals and ground stations, with the satellites and links that join them.

    In each slot of 15 s every place takes a satellite, and every path the shortest route between its two satellites.

    Example:
        bentpipe network make --pairs SYD-NYC,LON-JNB --loss satguard --duration 300 -o N.parquet
    """
    from bentpipe.cli.console import note, print_json, progress
    from bentpipe.profiles.networks.make import make_network, parse_pairs
    from bentpipe.profiles.networks.show import summarise
    from bentpipe.profiles.parquet import write_network
    from bentpipe.times import format_utc, parse_utc

    with progress("making the Network"):
        made = make_network(
            parse_pairs(pairs, "--pairs"),
            start_unix_ns=None if start is None else parse_utc(start, "--start"),
            duration_s=duration,
            elements=elements,
            constellation=constellation,
            policy=policy,
            capacity_bps=None if capacity is None else _capacities(capacity),
            queue_s=queue,
            gap_s=gap,
            loss=loss,
            isl_loss=isl_loss,
            seed=seed,
            name=name,
        )
    write_network(made, out)
    if start is None:
        note(f"no --start given: the Network begins at {format_utc(made.start_unix_ns)}")
    if as_json:
        print_json(summarise(made))
    else:
        note(f"{out}: {made.name}, {made.duration_s:g} s; look at it with `bentpipe network show {out}`")


def _capacities(text: str) -> dict[str, int]:
    from bentpipe.scenarios.units import parse_rate_bps

    rates: dict[str, int] = {}
    for part in text.split(","):
        kind, equals, rate = part.strip().partition("=")
        if not equals or kind not in ("isl", "gsl") or kind in rates:
            raise UserError(f"{part!r}", where="--capacity", expected="isl=RATE,gsl=RATE, each at most once")
        rates[kind] = parse_rate_bps(rate, "--capacity")
    return rates


@app.command()
def show(source: Source, at: At = 0.0, as_json: options.AsJson = False) -> None:
    """Print the paths of a Network at a time: RTT, links, satellites and handovers; and the links that they share.

    Example:
        bentpipe network show N.parquet --at 30
    """
    from bentpipe.cli.console import note, print_json, say, table
    from bentpipe.profiles.networks.show import summarise
    from bentpipe.profiles.parquet import read_network

    summary = summarise(read_network(source), at)
    if as_json:
        print_json(summary)
        return
    say(f"{summary['name']}: {summary['start']}, {summary['duration_s']:g} s")
    say(summary["description"])
    rows = [
        [
            path["name"],
            "no route" if path["rtt_ms"] is None else f"{path['rtt_ms']:.1f}",
            path["links"],
            path["from_satellite"] or "–",
            path["to_satellite"] or "–",
            path["routes"],
            path["handovers_terminal"],
            path["handovers_station"],
        ]
        for path in summary["paths"]
    ]
    heads = ["path", "RTT [ms]", "links", "first satellite", "last", "routes", "handovers: terminal", "station"]
    table(f"at {at:g} s", heads, rows)
    shared = summary["shared_links"]
    if shared:
        table("links of several paths", ["link", "paths"], [[each["link"], each["paths"]] for each in shared[:10]])
        if len(shared) > 10:
            note(f"{len(shared) - 10} more links of several paths: --json lists them")


@app.command()
def path(
    source: Source,
    name: Annotated[str, typer.Argument(metavar="PATH", help="Name of the path, as `network show` prints it.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The file to write.", show_default=False)],
) -> None:
    """Write one path of a Network as a Profile, for a lone user of it.

    Example:
        bentpipe network path N.parquet SYD-NYC -o P.parquet
    """
    from bentpipe.cli.console import note
    from bentpipe.errors import unknown_name
    from bentpipe.profiles.parquet import read_network, write_profile

    read = read_network(source)
    if name not in read.path_names:
        raise unknown_name("path", name, read.path_names, f"`bentpipe network show {source}` lists them")
    write_profile(read.profiles()[read.path_names.index(name)], out)
    note(f"{out}: the path {name}; look at it with `bentpipe profile show {out}`")


@app.command("map")
def map_(
    source: Source,
    out: Annotated[Path, typer.Option("-o", "--out", help="The page to write (.html).", show_default=False)],
    at: At = 0.0,
    elements: Annotated[
        Path | None,
        typer.Option(
            help="The file of elements that the Network was made from. [default: none, of a built-in constellation]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Draw a Network at a time: satellites, links in use and how many paths use them; one page that loads nothing.

    Example:
        bentpipe network map N.parquet --at 30 -o map.html
    """
    from bentpipe.cli.console import say
    from bentpipe.profiles.parquet import read_network
    from bentpipe.report.network_map import write_map

    write_map(read_network(source), out, at, elements=elements)
    say(out)
