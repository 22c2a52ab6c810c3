"""``bentpipe exp``: experiments on a testbed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bentpipe.cli.testbed import Token, Url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.client import TestbedClient

app = typer.Typer(no_args_is_help=True, help="Submit experiments to a testbed, follow them, get their results.")

Format = Annotated[str, typer.Option("--format", help="table, json or ids.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The experiment, YAML; -: standard input.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name or id of the experiment.")]
FORMATS = ("table", "json", "ids")


def client_of(url: str | None, token: str | None) -> TestbedClient:
    """Return a client; commands on the orchestrator's own host use the first admin's token. Raises `UserError`."""
    from bentpipe.testbed.client import TestbedClient
    from bentpipe.testbed.credentials import credentials_file
    from bentpipe.testbed.orchestrator.defaults import admin_file

    own = credentials_file()
    return TestbedClient(url, token, own if own.exists() else admin_file())


def show(form: str, title: str, columns: Sequence[str], records: Sequence[Any], rows: Sequence[Sequence[Any]]) -> None:
    """Print records as a table, as JSON, or their ids. Raises `UserError`: another format."""
    from bentpipe.cli.console import print_json, say, table
    from bentpipe.errors import UserError, did_you_mean, shown

    if form not in FORMATS:
        raise UserError(shown(form) + did_you_mean(form, FORMATS), where="format", expected=", ".join(FORMATS))
    if form == "json":
        print_json([record.to_dict() for record in records])
    elif form == "ids":
        for record in records:
            say(record.id)
    else:
        table(title, columns, rows)


def _read(file: Path) -> tuple[str, str]:
    """Return the text of a file and its name. Raises `UserError`."""
    import sys

    from bentpipe.errors import UserError

    if str(file) == "-":
        return sys.stdin.read(), "standard input"
    try:
        return file.read_text(encoding="utf-8"), str(file)
    except (OSError, UnicodeDecodeError):
        raise UserError("cannot be read", where=str(file), expected="a file in YAML") from None


def _at(at_ms: int | None) -> str:
    from bentpipe.testbed.schemas.quantities import at_text

    return "" if at_ms is None else at_text(at_ms // 1000 * 1000)


def _experiments(form: str, experiments: Sequence[Any]) -> None:
    rows = [
        [
            each.name,
            each.owner,
            each.state,
            ", ".join(each.nodes),
            ", ".join(f"{count} {state}" for state, count in sorted(each.runs.items())),
            _at(each.until_at_ms),
        ]
        for each in experiments
    ]
    show(form, "experiments", ["name", "owner", "state", "nodes", "runs", "until"], experiments, rows)


@app.command()
def submit(file: File, url: Url = None, token: Token = None, form: Format = "table") -> None:
    """Submit an experiment; its first runs are planned at once.

    Example: bentpipe exp submit ping.yml
    """
    text, where = _read(file)
    client = client_of(url, token)
    client.validate(text, where)
    _experiments(form, [client.submit(text)])


@app.command()
def validate(file: File) -> None:
    """Check the file of an experiment, without a testbed.

    Example: bentpipe exp validate ping.yml
    """
    from bentpipe.cli.console import say
    from bentpipe.testbed.client import TestbedClient

    text, where = _read(file)
    experiment = TestbedClient.validate(text, where)
    say(f"{experiment.name}: valid; a run takes at most {experiment.run.longest_s:g} s")


@app.command(name="dry-run")
def dry_run(file: File, url: Url = None, token: Token = None, form: Format = "table") -> None:
    """Print what a submission would do: nodes, ten starts, bytes, conflicts by name and the next free slot.

    Example: bentpipe exp dry-run ping.yml
    """
    from bentpipe.cli.console import print_json, say, table
    from bentpipe.testbed.schemas.quantities import about_size_text

    text, where = _read(file)
    client = client_of(url, token)
    client.validate(text, where)
    dry = client.dry_run(text)
    if form == "json":
        print_json(dry.to_dict())
        return
    say(f"nodes: {', '.join(dry.nodes)}")
    for verdict in dry.not_fitting:
        say(f"not {verdict.node}: {', '.join(verdict.reasons)}")
    if dry.trigger is not None:
        say(f"started by: {dry.trigger}")
    runs = f"{dry.runs_in_48_h} run{'' if dry.runs_in_48_h == 1 else 's'}"
    say(f"in 48 h: {runs}, about {about_size_text(dry.bytes_in_48_h)}")
    say(f"a run is ended at {about_size_text(dry.bytes_per_run)}")
    rows = [
        [
            start.node,
            start.server or "",
            _at(start.due_at_ms),
            _at(start.start_at_ms) or start.reason,
            ", ".join(f"{each.experiment} ({each.owner}) at {each.node}" for each in start.conflicts),
            _at(start.next_free_at_ms),
        ]
        for start in dry.starts
    ]
    table("starts", ["node", "server", "due", "start", "in the way", "next free"], rows)


@app.command()
def profile(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The Profile (Parquet).")],
    name: Annotated[str, typer.Option(help="Its name in `path: {profile: NAME}`.")],
    url: Url = None,
    token: Token = None,
    form: Format = "table",
) -> None:
    """Upload a Profile to rehearse experiments over its path, once for each name.

    Example: bentpipe exp profile mel-lon.parquet --name mel-lon
    """
    stored = client_of(url, token).put_profile(file, name)
    show(form, "profiles", ["name", "bytes", "owner"], [stored], [[stored.name, stored.bytes, stored.owner]])


@app.command()
def ls(
    url: Url = None,
    token: Token = None,
    state: Annotated[
        str | None, typer.Option(help="active, ended or canceled. [default: all]", show_default=False)
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Only of a user. [default: all]", show_default=False)] = None,
    form: Format = "table",
) -> None:
    """List experiments, newest first.

    Example: bentpipe exp ls --state active
    """
    _experiments(form, client_of(url, token).experiments(state=state, owner=owner))


@app.command()
def watch(name: Name, url: Url = None, token: Token = None) -> None:
    """Print runs of an experiment as their states change, until it is over.

    Example: bentpipe exp watch ping-home
    """
    from bentpipe.cli.console import flush, say

    for run in client_of(url, token).watch(name):
        say(f"{_at(run.changed_at_ms)} {run.node} {run.id} {run.state}{f': {run.reason}' if run.reason else ''}")
        flush()


@app.command()
def logs(
    name: Name,
    run: Annotated[str | None, typer.Option(help="Only of a run. [default: all]", show_default=False)] = None,
    url: Url = None,
    token: Token = None,
) -> None:
    """Print what nodes reported of the runs of an experiment, and how each run ended.

    Example: bentpipe exp logs ping-home
    """
    from bentpipe.cli.console import say
    from bentpipe.testbed.schemas.states import FINAL

    client = client_of(url, token)
    for each in [run] if run is not None else [row.id for row in client.runs(name)]:
        detail = client.run(each)
        for event in detail.events:
            body = event.body
            text = body.get("state") or body.get("text") or body.get("cause") or ""
            reason = f": {body['reason']}" if body.get("reason") else ""
            say(f"{_at(event.at_ms)} {event.node} {detail.id} {event.kind} {text}{reason}")
        if detail.state in FINAL:
            reason = f": {detail.reason}" if detail.reason else ""
            say(f"{_at(detail.changed_at_ms)} {detail.node} {detail.id} run {detail.state}{reason}")


@app.command()
def cancel(name: Name, url: Url = None, token: Token = None, form: Format = "table") -> None:
    """Cancel an experiment; what runs is stopped.

    Example: bentpipe exp cancel ping-home
    """
    _experiments(form, [client_of(url, token).cancel(name)])


@app.command()
def extend(
    name: Name,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="New end. [default: as it is]", show_default=False)
    ] = None,
    runs: Annotated[int | None, typer.Option(help="Runs at each node. [default: as it is]", show_default=False)] = None,
    url: Url = None,
    token: Token = None,
    form: Format = "table",
) -> None:
    """Give an experiment more time or runs.

    Example: bentpipe exp extend ping-home --until 2027-03-01
    """
    _experiments(form, [client_of(url, token).extend(name, until=until, runs=runs)])


@app.command()
def results(
    name: Name,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the results.")] = Path("results"),
    url: Url = None,
    token: Token = None,
) -> None:
    """Download the results of an experiment; what is there already stays. Standard error says what they lack, and why.

    Example: bentpipe exp results ping-home -o results
    """
    from bentpipe.cli.console import note, say
    from bentpipe.testbed.downloads import missing_parts

    for folder in client_of(url, token).results(name, out):
        say(folder)
        for line in missing_parts(folder):
            note(f"{folder.name}: {line}")
