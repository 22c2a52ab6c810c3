"""`bentpipe run` and `bentpipe shell`: real programs on the emulated path of a Profile."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bentpipe.cli import options
from bentpipe.cli.live import Live, Rows, row_sinks
from bentpipe.cli.made_profile import MadeProfile
from bentpipe.seeds import LARGEST_SEED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bentpipe._native import Profile
    from bentpipe.execution.emulation.result import EmulationResult
    from bentpipe.execution.program import ProgramRun

ProfileFile = Annotated[
    Path | None,
    typer.Argument(metavar="[PROFILE]", help="Profile of the path (.parquet), unless --site.", show_default=False),
]
Duration = Annotated[
    float | None,
    typer.Option(
        parser=options.duration,
        help="With --site, the Profile's duration: 300 (seconds), 300s, 5m. [default: 300]",
        show_default=False,
    ),
]
Command = Annotated[
    list[str], typer.Argument(metavar="-- PROGRAM [ARGS]…", help="Program to run on the path.", show_default=False)
]
Server = Annotated[
    str | None,
    typer.Option(
        help="Shell command to run at the other end, at the host name `server`. The path and PROGRAM start when it "
        "listens. [default: no server]",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None, typer.Option("-o", "--out", help="Folder for the Run. [default: not stored]", show_default=False)
]
Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of the path's random processes.")]
Offset = Annotated[
    float | None,
    typer.Option(
        parser=options.duration,
        help="Offset in the Profile at which the path begins, such as 10s. [default: the current second of the "
        "minute, so that reconfigurations come at :12, :27, :42 and :57]",
        show_default=False,
    ),
]
End = Annotated[
    Literal["loop", "hold", "stop"],
    typer.Option("--at-end", help="At the Profile's end: repeat it, keep its last values, or end PROGRAM."),
]
Mtu = Annotated[int, typer.Option(help="Largest IP packet [bytes].")]
GatewayCc = Annotated[
    str | None,
    typer.Option(
        help="This kernel's congestion controller for TCP data from the Internet. TCP to the Internet is a split "
        "connection: this kernel terminates it at the gateway end of the path. [default: the kernel's own]",
        show_default=False,
    ),
]
NoInternet = Annotated[
    bool,
    typer.Option("--no-internet", help="Allow only the server at the other end."),
]
AllowLocal = Annotated[
    bool,
    typer.Option(
        "--allow-local",
        help="Allow private addresses and this machine's networks too, with your access. [default: public "
        "addresses only]",
    ),
]
Aqm = Annotated[
    list[str] | None,
    typer.Option(
        "--aqm",
        help="Queue discipline that replaces the Profile's own: drop_tail, codel, fq_codel, red or step, as in "
        "`bentpipe race`. [repeatable] [default: the Profile's own]",
        show_default=False,
    ),
]
LISTEN_WITHIN_S = (0.1, 3600.0)
"""Bounds of the wait for a server [s]."""


def _listen_within(text: str | float) -> float:
    seconds = options.duration(text)
    if not LISTEN_WITHIN_S[0] <= seconds <= LISTEN_WITHIN_S[1]:
        raise typer.BadParameter(f"{text}; expected {LISTEN_WITHIN_S[0]:g} s to {LISTEN_WITHIN_S[1]:g} s")
    return seconds


ListenWithin = Annotated[
    float,
    typer.Option(parser=_listen_within, metavar="DURATION", help="Longest wait for the server to listen, such as 10s."),
]
Recovery = Annotated[
    str | None,
    typer.Option(
        help="Loss recovery on the path: a scheme of `bentpipe recovery`, with its tunables, such as "
        "satguard:tries=2. [default: none]",
        show_default=False,
    ),
]
Nodes = Annotated[
    bool,
    typer.Option(
        "--nodes",
        help="Make terminal, satellites and ground station processes of their own that exchange real packets. They do "
        "not repeat the Profile.",
    ),
]
Capture = Annotated[
    bool,
    typer.Option(
        "--capture", help="Store the packets of both ends in the Run, as pcapng, each with its fate on the path."
    ),
]


CARRIED_BPS = 1.5e9
"""Rate that `bentpipe validate emulator` requires of a machine with two processors (row "speed") [bit/s]."""

IPV6_LEAST_MTU = 1280
"""Smallest MTU of IPv6 (RFC 8200, 5) [bytes]."""


@options.shared
def run(
    profile: ProfileFile,
    command: Command,
    duration: Duration = None,
    server: Server = None,
    out: Out = None,
    seed: Seed = 0,
    offset: Offset = None,
    at_end: End = "loop",
    mtu: Mtu = 1500,
    gateway_cc: GatewayCc = None,
    no_internet: NoInternet = False,
    allow_local: AllowLocal = False,
    aqm: Aqm = None,
    recovery: Recovery = None,
    nodes: Nodes = False,
    capture: Capture = False,
    listen_within: ListenWithin = 10.0,
    live: Live = False,
    rows: Rows = None,
    *,
    made: MadeProfile,
) -> None:
    """Run a program on the emulated path of a Profile, in real time. Exits with the program's exit code.

    Needs no root where the kernel allows user namespaces (`bentpipe kernel check` tells). The program runs as you, with
    your files and terminal, without a sandbox. Only its network differs: all its packets, to the Internet too, take the
    emulated path.

    Example:
        bentpipe run P.parquet --server "iperf3 -s" -- iperf3 -c server -C cubic -t 60

    With throughput, queue and RTT while it runs:
        bentpipe run P.parquet --live --server "iperf3 -s" -- iperf3 -c server -t 60 > iperf3.txt

    To the Internet, over a Profile that the command makes (`bentpipe profile make` has more options):
        bentpipe run --site louvain --to london -- curl -o page.html https://example.org/
    """
    from bentpipe.cli.console import note
    from bentpipe.errors import UserError
    from bentpipe.execution.emulation.spec import MIN_MTU
    from bentpipe.execution.emulation.terminal import restore_foreground
    from bentpipe.execution.program import run_program

    if no_internet and allow_local:
        raise UserError("--no-internet and --allow-local cannot be given together; expected one of them or neither")
    if rows == "-":
        raise UserError("--rows -: standard output is the program's; expected a file or a named pipe")
    if MIN_MTU <= mtu < IPV6_LEAST_MTU:
        note(f"--mtu {mtu}: below the {IPV6_LEAST_MTU} bytes that IPv6 requires, so the program has IPv4 only")
    path = _path(profile, duration, made)
    note_if_fast([path])
    # A table between a program's own lines would overwrite them.
    is_table = sys.stderr.isatty() and not sys.stdout.isatty()
    with restore_foreground(), row_sinks(rows, live=live, is_table=is_table) as (on_rows, _):
        result = run_program(
            path,
            command,
            server=server,
            out=out,
            seed=seed,
            offset_s=offset,
            at_end=at_end,
            mtu=mtu,
            gateway_controller=gateway_cc,
            internet="none" if no_internet else "any" if allow_local else "public",
            queues=aqm or [],
            recovery=recovery,
            nodes=nodes,
            capture=capture,
            listen_within_s=listen_within,
            on_rows=on_rows,
        )
    _print_notes(result, allow_local_helps=not no_internet)
    raise typer.Exit(result.exit_code)


@options.shared
def shell(
    profile: ProfileFile = None,
    duration: Duration = None,
    server: Server = None,
    out: Out = None,
    seed: Seed = 0,
    offset: Offset = None,
    at_end: End = "loop",
    mtu: Mtu = 1500,
    gateway_cc: GatewayCc = None,
    no_internet: NoInternet = False,
    allow_local: AllowLocal = False,
    aqm: Aqm = None,
    recovery: Recovery = None,
    nodes: Nodes = False,
    capture: Capture = False,
    listen_within: ListenWithin = 10.0,
    *,
    made: MadeProfile,
) -> None:
    """Open your shell on the emulated path of a Profile; `exit` ends it. A shell inside a shell has both paths.

    Example:
        bentpipe shell P.parquet --server "python3 -m http.server"

    Over a Profile that the command makes:
        bentpipe shell --site louvain --to london
    """
    from bentpipe.cli.console import note

    note("shell on the emulated path; `exit` ends it")
    run(
        profile=profile,
        command=[os.environ.get("SHELL") or "/bin/sh"],
        duration=duration,
        server=server,
        out=out,
        seed=seed,
        offset=offset,
        at_end=at_end,
        mtu=mtu,
        gateway_cc=gateway_cc,
        no_internet=no_internet,
        allow_local=allow_local,
        aqm=aqm,
        recovery=recovery,
        nodes=nodes,
        capture=capture,
        listen_within=listen_within,
        **vars(made),
    )


def _path(file: Path | None, duration_s: float | None, made: MadeProfile) -> Profile:
    """Read the Profile in `file`, or make that of `made` and print it in one line."""
    from bentpipe.errors import UserError
    from bentpipe.profiles.parquet import read_profile

    if made.site is None:
        made.refuse_without_site({"--duration": duration_s})
        if file is None:
            raise UserError("no Profile; expected a file (.parquet), or --site and --to to make one")
        if not file.exists():
            raise UserError(f"{file}: no such file; expected a Profile (.parquet) before the program")
        return read_profile(file)
    if file is not None and str(file) != options.MADE:
        raise UserError(f"{file}: --site makes the Profile; expected either of them")
    return made.make(300.0 if duration_s is None else duration_s)


def note_if_fast(paths: Iterable[Profile]) -> None:
    """Warn that a path may have more capacity than this machine can emulate."""
    from bentpipe.cli.console import note
    from bentpipe.profiles.path import max_capacity_bps

    for path in paths:
        if (most_bps := max_capacity_bps(path)) > CARRIED_BPS:
            note(
                f"{path.name} carries up to {most_bps / 1e9:.3g} Gbit/s, two processors with both ends on them about "
                f"{CARRIED_BPS / 1e9:g}: a run that is limited by the machine and not by the path is marked not valid"
            )


def _print_notes(result: ProgramRun, allow_local_helps: bool) -> None:
    from bentpipe.cli.console import note, warn

    note(summary_line(result.emulated))
    if ended := result.emulated.why_ended:
        note(ended)
    if result.emulated.why_invalid:
        warn(f"this run is not valid: {result.emulated.why_invalid}")
    if result.emulated.warning:
        warn(result.emulated.warning)
    if refused := ((result.emulated.done or {}).get("gateway") or {}).get("dropped_by_policy"):
        warn(
            f"refused {refused} attempts to reach private addresses or this machine's networks; --allow-local allows "
            "them"
            if allow_local_helps
            else f"refused {refused} attempts to reach more than the server (--no-internet)"
        )
    if result.note is not None:
        note(result.note)
    if result.emulated.why_incomplete:
        warn(f"the capture is not complete: {result.emulated.why_incomplete}")
    if result.run is not None:
        note(f"Run in {result.run.path}")


def summary_line(emulated: EmulationResult) -> str:
    """Summarise packets delivered and lost, and the emulator's lateness."""
    from bentpipe.execution.emulation.lateness import ENOUGH

    if emulated.done is None:
        return "the emulation stopped early"
    relay = emulated.done["relay"]
    late_ms, most_ms = relay["lateness_p99_ms"], relay["lateness_max_ms"]
    if late_ms is None:
        lateness = ""
    elif relay["lateness_n"] < ENOUGH:
        lateness = f"; the latest {most_ms:.3g} ms late"
        if emulated.verdict == "too few" and emulated.why_invalid is None:
            lateness += f"; the Run counts (of fewer than {ENOUGH} packets only the latest is judged)"
    else:
        lateness = f"; 99 % of them at most {late_ms:.3g} ms late"
    refused = f", {relay['refused']} without a route" if relay["refused"] else ""
    return f"{relay['delivered']} packets delivered, {relay['lost']} lost on the path{refused}{lateness}"
