"""The command ``bentpipe``: the root of all command groups.

Importing this module loads neither Polars nor Matplotlib nor the native module: every command has its own imports.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bentpipe.cli import (
    analyze,
    aware,
    catalogue,
    dish,
    exp,
    fleet,
    kernel,
    network,
    predict,
    probe,
    profile,
    study,
    testbed,
    trigger,
    video,
    web,
)
from bentpipe.cli.call import call
from bentpipe.cli.clock import clock
from bentpipe.cli.compare import compare
from bentpipe.cli.demo import demo
from bentpipe.cli.errors import ReportingGroup
from bentpipe.cli.options import PlaceCommand, ProgramCommand
from bentpipe.cli.race import race
from bentpipe.cli.read import read
from bentpipe.cli.replay import replay
from bentpipe.cli.report import report
from bentpipe.cli.route import route
from bentpipe.cli.run import run, shell
from bentpipe.cli.serving import serving
from bentpipe.cli.sky import sky
from bentpipe.cli.sweeping import fairness, tune
from bentpipe.cli.validate import validate

app = typer.Typer(
    name="bentpipe",
    cls=ReportingGroup,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        from bentpipe import __version__
        from bentpipe.cli.console import say

        say(f"bentpipe {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def bentpipe(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of a fault in bentpipe.")] = False,
) -> None:
    """Simulate, emulate and measure transports and applications over low-earth-orbit satellite Internet.

    Input: a Profile (a path over time). Output: a Run (tables and a record of what happened on it).

    Example:
        bentpipe profile make --site melbourne --to london --duration 60 -o P.parquet &&
        bentpipe race P.parquet --cc cubic,bbr -o out/race && bentpipe report out/race
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.add_typer(profile.app, name="profile")
app.add_typer(network.app, name="network")
app.add_typer(web.app, name="web")
app.add_typer(dish.app, name="dish")
app.add_typer(probe.app, name="probe")
app.add_typer(kernel.app, name="kernel")
app.add_typer(analyze.app, name="analyze")
app.add_typer(predict.app, name="predict")
app.add_typer(video.app, name="video")
app.add_typer(aware.app, name="aware")
app.add_typer(trigger.app, name="trigger")
app.add_typer(testbed.app, name="testbed")
app.add_typer(exp.app, name="exp")
app.add_typer(fleet.app, name="node")
app.add_typer(study.app, name="study")
app.command(cls=ProgramCommand)(run)
app.command(cls=PlaceCommand)(shell)
app.command(cls=PlaceCommand)(race)
app.command()(call)
app.command()(clock)
app.command()(tune)
app.command()(fairness)
app.command()(replay)
app.command()(report)
app.command()(compare)
app.command()(read)
app.command()(demo)
app.command(cls=PlaceCommand)(sky)
app.command(cls=PlaceCommand)(route)
app.command(cls=PlaceCommand)(serving)
app.command()(validate)
app.command()(catalogue.cc)
app.command()(catalogue.recovery)
app.command()(catalogue.sites)
app.command()(catalogue.constellations)
app.command()(catalogue.presets)
app.command()(catalogue.policies)
app.command()(catalogue.loss)
