"""``bentpipe clock``: keep the handover clock that loaded controllers read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bentpipe.cli import options

if TYPE_CHECKING:
    from bentpipe._native import Profile
    from bentpipe.kernel.clock.daemon import ClockEvent

NO_CLOCK = 3
"""Exit code where no clock was found."""


def clock(
    learn: Annotated[bool, typer.Option("--learn", help="Learn it from this network namespace's TCP sockets.")] = False,
    profile: Annotated[
        Path | None, typer.Option(help="Take it from this Profile, which is being emulated.", show_default=False)
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="With --profile: time at which its beginning was emulated, or `now`. [default: as `bentpipe run`"
            " begins it, so that its seconds are those of the minute]",
            show_default=False,
        ),
    ] = None,
    dish: Annotated[
        str | None,
        typer.Option(metavar="HOST[:PORT]", help="Take it from the network of this terminal.", show_default=False),
    ] = None,
    for_s: options.For = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON per change.")] = False,
) -> None:
    """Keep the handover clock of this host in all loaded controllers, and withdraw it when it is not sure.

    Prints a line per change. `bentpipe kernel status` shows the clock. At the end it is withdrawn; if this program is
    killed, it ends by itself within 5 s.

    Exit code 3: there was no clock in the time of --for, or the Profile has none.

    Example: sudo bentpipe clock --learn
    """
    from bentpipe.errors import UserError
    from bentpipe.kernel.clock.daemon import keep_clock

    if [learn, profile is not None, dish is not None].count(True) != 1:
        raise UserError("--learn, --profile and --dish", expected="one of the three")
    has_clock = keep_clock(
        profile=None if profile is None else _read(profile),
        start_unix_ns=None if start is None else _time(start),
        file=profile,
        dish=dish,
        for_s=for_s,
        on_event=_print_json if as_json else _print,
    )
    raise typer.Exit(0 if has_clock else NO_CLOCK)


def _time(start: str) -> int:
    import time

    from bentpipe.times import parse_utc

    return time.time_ns() if start == "now" else parse_utc(start, "start")


def _read(file: Path) -> Profile:
    from bentpipe.profiles.parquet import read_profile

    return read_profile(file)


def _print(event: ClockEvent) -> None:
    from bentpipe.cli.console import flush, say

    say(event.to_line())
    flush()


def _print_json(event: ClockEvent) -> None:
    import json

    from bentpipe.cli.console import flush, say

    say(json.dumps(event.to_dict()))
    flush()
