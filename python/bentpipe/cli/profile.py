"""`bentpipe profile`: make, show, plot and convert Profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bentpipe.cli import options
from bentpipe.errors import UserError, shown
from bentpipe.seeds import LARGEST_SEED

app = typer.Typer()

Source = Annotated[Path, typer.Argument(metavar="PROFILE", help="A Profile (Parquet).", show_default=False)]


@app.callback(invoke_without_command=True)
def profile(context: typer.Context) -> None:
    """Make, show, plot and convert Profiles: a path over time, in one Parquet file.

    Example:
        bentpipe profile make --preset dumbbell:rate=100mbit,rtt=40ms --duration 60 -o D.parquet
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(cls=options.PlaceCommand)
def make(
    out: Annotated[Path, typer.Option("-o", "--out", help="The file to write.", show_default=False)],
    site: Annotated[str | None, options.place(label="The terminal")] = None,
    to: Annotated[str | None, options.place(label="The server")] = None,
    start: options.Start = None,
    duration: Annotated[
        float, typer.Option(parser=options.duration, help="Duration: 300 (seconds), 300s, 5m.")
    ] = 300.0,
    elements: options.Elements = None,
    constellation: Annotated[str | None, options.shells("starlink-gen1")] = None,
    gateways: options.Gateways = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Policy that selects a slot's satellite, of `bentpipe policies`. [default: starlink-like]",
            show_default=False,
        ),
    ] = None,
    isl: options.Isl = None,
    track: Annotated[
        Path | None,
        typer.Option(
            help="A moving terminal in place of --site: CSV with time,lat,lon[,alt]. [default: none]",
            show_default=False,
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            help="Loss environment of `bentpipe loss`: busy (a flow fills the path), idle (only pings), … [default: "
            "busy]",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of every random process.", min=0, max=LARGEST_SEED)] = 0,
    preset: Annotated[
        str | None,
        typer.Option(
            help="A named path in place of --site and --to: NAME[:key=value,...] of `bentpipe presets`.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The Profile's name. [default: its sites or its preset]", show_default=False)
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Make a Profile: a terminal behind a constellation, or a preset.

    Where no gateway is in reach the path goes over inter-satellite links.

    Example:
        bentpipe profile make --site melbourne --to london --start 2026-05-10T09:00:00Z --duration 300 -o P.parquet
    """
    import json

    from bentpipe.cli.console import note, print_json, progress
    from bentpipe.profiles.make import make_profile
    from bentpipe.profiles.origin import loss_name
    from bentpipe.profiles.parquet import write_profile
    from bentpipe.profiles.presets import preset_profile
    from bentpipe.profiles.show import loss_text, summarise
    from bentpipe.scenarios.places import parse_place
    from bentpipe.times import format_utc, parse_utc

    start_unix_ns = None if start is None else parse_utc(start, "--start")
    if preset is not None:
        conflicting = {
            "--site": site,
            "--to": to,
            "--elements": elements,
            "--constellation": constellation,
            "--gateways": gateways,
            "--policy": policy,
            "--isl": isl,
            "--track": track,
        }
        if also := [option for option, value in conflicting.items() if value is not None]:
            raise UserError(f"--preset: defines the whole path, so {also[0]} cannot be given with it")
        with progress("making the Profile") as advance:
            made = preset_profile(
                preset,
                duration,
                start_unix_ns=start_unix_ns,
                seed=seed,
                name=name,
                loss=loss,
                on_progress=advance,
            )
    elif (site is None and track is None) or to is None:
        raise UserError("--site and --to are needed; expected a name of `bentpipe sites`, or lat,lon; or try --preset")
    elif site is not None and track is not None:
        raise UserError("--site and --track are given; expected one of them")
    else:
        with progress("making the Profile") as advance:
            made = make_profile(
                site,
                to,
                start_unix_ns=start_unix_ns,
                duration_s=duration,
                elements=elements,
                constellation=constellation,
                gateways=gateways,
                policy=policy,
                isl=isl,
                track=track,
                loss=loss,
                seed=seed,
                name=name,
                on_progress=advance,
            )
    write_profile(made, out)
    if start is None and track is None:
        note(f"no --start given: the Profile begins at {format_utc(made.start_unix_ns)}")
    if loss is None and (process := loss_name(json.loads(made.metadata_json()))) is not None:
        note(f"no --loss given: loss is {loss_text(process)}; `bentpipe loss` lists the others")
    if site is not None and to is not None and parse_place(site) == parse_place(to):
        note("--site and --to are one place: the path goes up, down to a gateway, and back to a server there")
    if as_json:
        print_json(summarise(made))
    else:
        note(f"{out}: {made.name}, {made.duration_s:g} s; look at it with `bentpipe profile show {out}`")


@app.command("from")
def from_(
    source: Annotated[
        Path, typer.Argument(metavar="OUT", help="A measured Run, or a Parquet table of pings.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The file to write.", show_default=False)],
    site: Annotated[
        str | None, typer.Option(help="Only probes from this site. [default: all]", show_default=False)
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Only probes to this target. [default: all]", show_default=False)
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="Only probes of this kind: icmp, tcp or udp. [default: all]", show_default=False)
    ] = None,
    split: Annotated[
        float, typer.Option(help="Share of an RTT that is uplink delay, if one-way delays were not measured.")
    ] = 0.5,
    silent: Annotated[
        str,
        typer.Option(help="Meaning of intervals without probes: gap, or lost (the prober logged replies only)."),
    ] = "gap",
    capacity: Annotated[
        list[str] | None,
        typer.Option(
            help="Capacity: [up=|down=] and a rate (100mbit), JSON of iperf3 -J, a packet-delivery trace or a Profile. "
            "[repeatable] [default: the Run's own speed tests, else no limit]",
            show_default=False,
        ),
    ] = None,
    queue: Annotated[
        str,
        typer.Option(help="Queue limit at the capacity, which pings do not measure: 1000packets, 64kb or 100ms."),
    ] = "1000packets",
    times: Annotated[
        Literal["probe", "reply"] | None,
        typer.Option(
            help="Timestamps of the pings: send times (probe) or reply times (reply). [default: detected]",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The Profile's name. [default: site → target]", show_default=False)
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Make a Profile from measured probes: delay, slots, loss and gaps.

    Example:
        bentpipe profile from out/home -o P.parquet --capacity down=100mbit --capacity up=15mbit
    """
    from bentpipe.cli.console import note, print_json, table
    from bentpipe.measurements.profile import profile_from
    from bentpipe.profiles.measured.agreement import agreement as compare_probes
    from bentpipe.profiles.measured.agreement import disagreement
    from bentpipe.profiles.measured.capacity import read_capacity
    from bentpipe.profiles.measured.make import FromPings
    from bentpipe.profiles.parquet import write_profile
    from bentpipe.scenarios.units import parse_queue

    if silent not in ("gap", "lost"):
        raise UserError(f"--silent: {shown(silent)}; expected gap or lost")
    made = profile_from(
        source,
        FromPings(
            site=site,
            target=target,
            kind=kind,
            split=split,
            silent_is_lost=silent == "lost",
            capacities=[read_capacity(text) for text in capacity or ()],
            queue=parse_queue(queue, "--queue"),
            name=name,
            times=times,
        ),
    )
    write_profile(made.profile, out)
    agreement = compare_probes(made)
    notes = [*made.notes, *disagreement(agreement)]
    if as_json:
        print_json({"notes": notes, "agreement": agreement})
        return
    for line in notes:
        note(line)
    table("", list(agreement[0]), [list(row.values()) for row in agreement])
    note(f"{out}: {made.profile.name}, {made.profile.duration_s:g} s; the last line is the RTT of a ping over it")


@app.command()
def show(
    source: Source,
    slots: Annotated[
        bool, typer.Option("--slots", help="List the slots too: start, satellite, gateway and PoP.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Print a Profile's delay, capacity and loss, its handovers and reconfigurations, and its provenance.

    Example:
        bentpipe profile show P.parquet --slots
    """
    import json

    from bentpipe.cli.console import note, print_json, say, table
    from bentpipe.profiles.origin import slots as slots_of
    from bentpipe.profiles.parquet import read_profile
    from bentpipe.profiles.show import as_rows, summarise

    path = read_profile(source)
    summary = summarise(path)
    served = slots_of(json.loads(path.metadata_json())) if slots else []
    if as_json:
        print_json(summary | {"slots": served} if slots else summary)
        return
    facts, directions, columns = as_rows(summary)
    for key, value in facts:
        say(f"{key:12} {value}")
    table("", columns, directions)
    if served:
        say()
        heads = ["start", "lasts_s", "norad_id", "satellite", "relays", "gateway", "pop", "elevation_deg"]
        rows = [row | {"relays": len(row["relays"])} for row in served]
        if not any(row["relays"] for row in rows):
            heads.remove("relays")
        table("", heads, [[row[head] for head in heads] for row in rows])
    elif slots:
        note(f"{source}: has no slots; only Profiles computed from orbits have slots")


@app.command()
def plot(
    source: Source,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", help="The figure: .png, .svg or .pdf. [default: beside the Profile]", show_default=False
        ),
    ] = None,
) -> None:
    """Plot a Profile over time: delay with slot edges, handovers and reconfigurations; capacity; loss.

    Example:
        bentpipe profile plot P.parquet -o P.png
    """
    from bentpipe.cli.console import progress, say
    from bentpipe.plots.profile import save_profile_figure
    from bentpipe.profiles.parquet import read_profile

    target = out or source.with_suffix(".png")
    with progress("drawing"):
        save_profile_figure(read_profile(source), target)
    say(target)


@app.command()
def convert(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="With --to: a Profile. With --from: the format's file(s).")
    ],
    to: Annotated[
        str | None,
        typer.Option(
            "--to", help="Format to write: csv, hypatia, leoreplayer, mahimahi, netem or starrynet.", show_default=False
        ),
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Format to read: csv, hypatia, iperf3, leoreplayer, mahimahi, netem or starrynet.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            help="The file to write, or the prefix of several. [default: beside the first FILE]",
            show_default=False,
        ),
    ] = None,
    step: Annotated[str, typer.Option(help="--to: interval between samples.")] = "100ms",
    bin_: Annotated[str, typer.Option("--bin", help="--from mahimahi: bin width of the capacity.")] = "100ms",
    delay: Annotated[
        str | None,
        typer.Option(help="--from: one-way delay if the files have none, such as 20ms.", show_default=False),
    ] = None,
    queue: Annotated[
        str,
        typer.Option(
            help="--from: queue limit, which the files do not have: 1000packets, 64kb or 100ms "
            "(bdp needs the fixed rate and RTT of a preset)."
        ),
    ] = "1000packets",
    direction: Annotated[str, typer.Option(help="--from mahimahi with one trace: its direction, up or down.")] = "down",
    start: Annotated[
        str | None,
        typer.Option(help="--from: start time, ISO-8601. [default: from the file, else 1970]", show_default=False),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="--from: the Profile's name. [default: the file's]", show_default=False)
    ] = None,
) -> None:
    """Convert a Profile to another tool's format, or another tool's files to a Profile.

    Example:
        bentpipe profile convert P.parquet --to mahimahi -o trace;
        bentpipe profile convert trace.up trace.down --from mahimahi --delay 20ms -o Q.parquet
    """
    from bentpipe.cli.console import note, say
    from bentpipe.profiles import convert as formats
    from bentpipe.profiles.convert import reading, writing
    from bentpipe.profiles.parquet import read_profile, write_profile
    from bentpipe.scenarios.units import parse_queue, parse_time_ns
    from bentpipe.times import parse_utc

    if (to is None) == (origin is None):
        raise UserError("--to, --from: both or neither given; expected one of --to FORMAT and --from FORMAT")
    if to is not None:
        if len(files) != 1:
            raise UserError(f"--to: {len(files)} files given; expected one Profile")
        target = out or files[0].with_suffix(formats.ending(to))
        written = formats.write_as(
            to, read_profile(files[0]), target, writing.WriteOptions(step_s=parse_time_ns(step, "--step") / 1e9)
        )
        for line in written.notes:
            note(line)
        for path in written.files:
            say(path)
        return
    assert origin is not None
    if direction not in ("up", "down"):
        raise UserError(f"--direction: {shown(direction)}; expected up or down")
    read_options = reading.ReadOptions(
        name=name,
        start_unix_ns=None if start is None else parse_utc(start, "--start"),
        direction="up" if direction == "up" else "down",
        bin_s=parse_time_ns(bin_, "--bin") / 1e9,
        delay_s=None if delay is None else parse_time_ns(delay, "--delay") / 1e9,
        queue=parse_queue(queue, "--queue"),
    )
    converted = formats.read_as(origin, files, read_options)
    target = out or files[0].with_suffix(".parquet")
    write_profile(converted.profile, target)
    for line in converted.notes:
        note(line)
    say(target)
