"""`bentpipe replay`: a hook trace against a controller."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Trace = Annotated[Path, typer.Argument(help="A hook trace, as `bentpipe race --hook-trace` stores it in a Run.")]
Scheme = Annotated[
    str | None,
    typer.Option(
        "--cc",
        help="The controller to call, with tunables as in cubic:hystart=off. [default: the trace's, as recorded]",
        show_default=False,
    ),
]


def replay(trace: Trace, cc: Scheme = None) -> None:
    """Repeat the recorded calls on a controller without a network, and print the first difference.

    A difference is another window, slow-start threshold or pacing rate after a call. Exit code 1: there is one.

    Example:
        bentpipe race P.parquet --cc cubic --hook-trace -o out
        bentpipe replay RUN/flow-0.hooks.gz --cc cubic:hystart=off

    RUN is the folder of a Run in out.
    """
    from bentpipe.cli.console import say
    from bentpipe.experiments import hook_traces

    result = hook_traces.replay(trace, cc)
    if result.difference is not None:
        say(f"{result.recorded} replayed on {result.controller}: {result.difference}")
        raise typer.Exit(1)
    say(f"{result.recorded} replayed on {result.controller}: {result.calls} calls, no difference")
