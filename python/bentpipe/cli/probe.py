"""``bentpipe probe``: active measurements of a path from this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bentpipe.cli import options

if TYPE_CHECKING:
    from bentpipe.measurements.probing.spec import Method

app = typer.Typer(
    help="Measure paths from this machine: pings, TCP handshakes, one-way delays, traceroutes.",
    no_args_is_help=True,
)

Hosts = Annotated[list[str], typer.Argument(metavar="HOST…", help="Names or addresses; probed in turn.")]
Out = Annotated[Path, typer.Option("-o", "--out", help="Folder for the Run.", show_default=False)]
Every = Annotated[str, typer.Option(help="Interval between probes to one target: 0.01 (seconds), 10ms, 1s.")]
For = Annotated[
    str | None,
    typer.Option("--for", help="Duration: 90, 90s, 15m, 2h, 7d. [default: until Ctrl-C]", show_default=False),
]
Site = Annotated[str, typer.Option(help="Name of this site in the Run.")]
Only4 = Annotated[bool, typer.Option("-4", help="Use IPv4 only.")]
Only6 = Annotated[bool, typer.Option("-6", help="Use IPv6 only.")]
DEFAULT_PORT = 8712


@dataclass(frozen=True)
class Common:
    """Options of every prober."""

    hosts: Hosts
    out: Out
    every: Every = "1s"
    for_: For = None
    site: Site = "here"
    only4: Only4 = False
    only6: Only6 = False
    as_json: options.AsJson = False


@app.command()
@options.shared
def ping(common: Common) -> None:
    """Measure RTT and loss with ICMP echo. Needs no root where `net.ipv4.ping_group_range` allows it.

    Example: bentpipe probe ping 8.8.8.8 1.1.1.1 --every 0.01 --for 2h -o out/probe
    """
    _probe("ping", common, 0)


@app.command()
@options.shared
def tcp(
    *,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port; a closed port answers too.")] = 443,
    common: Common,
) -> None:
    """Measure RTT and loss with TCP handshakes: SYN to SYN-ACK, or to the RST of a closed port. Needs no root.

    Example: bentpipe probe tcp www.example.com --port 443 --every 1 --for 2h -o out/probe
    """
    _probe("tcp", common, port)


@app.command()
@options.shared
def owd(
    *,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of `bentpipe probe reflect`.")] = DEFAULT_PORT,
    synchronised: Annotated[
        bool, typer.Option("--synchronised", help="Both clocks are synchronised (PTP, GPS): estimate no offset.")
    ] = False,
    common: Common,
) -> None:
    """Measure one-way delays and losses over UDP, against `bentpipe probe reflect` on the other end.

    Example: bentpipe probe owd my.server.example --every 0.01 --for 2h -o out/probe
    """
    _probe("owd", common, port, synchronised=synchronised)


@app.command()
@options.shared
def trace(common: Common) -> None:
    """Run traceroutes one after the other, for `bentpipe analyze path`.

    Example: bentpipe probe trace 8.8.8.8 --every 1 --for 2h -o out/trace
    """
    _probe("trace", common, 0)


@app.command()
def reflect(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: a free one, which is printed.")] = DEFAULT_PORT,
    address: Annotated[str, typer.Option(help="Address to listen on; ::: all, with IPv4.")] = "::",
) -> None:
    """Reflect the probes of `probe owd` until Ctrl-C. Each reply goes to the probe's sender and is as large.

    Example: bentpipe probe reflect --port 8712
    """
    from bentpipe.cli.console import note, say
    from bentpipe.measurements.probing.reflector import Reflector

    reflector = Reflector(address, port)
    say(f"{address} port {reflector.port}")
    note("reflecting UDP probes; Ctrl-C ends it")
    reflector.serve()


@app.command()
def finish(out: Annotated[Path, typer.Argument(help="The -o of a probe that was killed.")]) -> None:
    """Make Runs from the records of a killed prober: everything except its last second.

    Example: bentpipe probe finish out/probe
    """
    from bentpipe.cli.console import note
    from bentpipe.measurements.probing.conversion import finish_all

    for run in finish_all(out):
        note(f"Run in {run.path}")


def _probe(
    method: Method,
    common: Common,
    port: int,
    *,
    synchronised: bool = False,
) -> None:
    import sys

    from bentpipe.cli.console import note, print_json, table, warn
    from bentpipe.errors import UserError
    from bentpipe.measurements.probing.live_table import live
    from bentpipe.measurements.probing.recording import ProbeRequest, unfinished
    from bentpipe.measurements.probing.report import COLUMNS, rows
    from bentpipe.measurements.probing.session import Session
    from bentpipe.measurements.probing.spec import Spec, look_up
    from bentpipe.times import parse_duration_ns

    if common.only4 and common.only6:
        raise UserError("-4 and -6 exclude each other; expected one of them or neither")
    spec = Spec(
        method,
        look_up(common.hosts, method, port, 4 if common.only4 else 6 if common.only6 else None),
        parse_duration_ns(common.every, "--every"),
        None if common.for_ is None else parse_duration_ns(common.for_, "--for"),
    )
    for left in unfinished(common.out):
        note(f"{left}: left by a killed prober; `bentpipe probe finish {common.out}` makes a Run of it")
    session = Session(ProbeRequest(common.site, spec, synchronised), common.out, note)
    with live(session.live_table, shown=sys.stderr.isatty()):
        run = session.run()
    if run is None:
        note("ended before the first probe; nothing is stored")
        return
    if run.record.why_invalid:
        warn(f"this Run is not valid: {run.record.why_invalid}")
    if common.as_json:
        print_json({"path": str(run.path), "valid": run.record.valid, **run.summary})
    else:
        table("", COLUMNS[method], rows(run))
    note(f"Run in {run.path}")
