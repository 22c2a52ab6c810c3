"""``bentpipe node ls`` and others: the nodes of a testbed, for users and hosts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bentpipe.cli import node as agent
from bentpipe.cli.exp import Format, client_of, show
from bentpipe.cli.testbed import Token, Url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.schemas.views import NodeView

app = agent.app
Node = Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")]


def _print(form: str, nodes: Sequence[NodeView]) -> None:
    from bentpipe.testbed.schemas.quantities import at_text

    rows = []
    for node in nodes:
        seen = "" if node.seen_at_ms is None else at_text(node.seen_at_ms // 1000 * 1000)
        flags = [name for name in ("paused", "draining") if getattr(node.settings, name)]
        if node.report.policy.paused or node.status.paused:
            why = next((f": {note}" for note in node.status.notes if "policy" in note), "")
            flags = [f"paused by its host{why}", *flags]
        state = node.state if node.state != "active" else "online" if node.online else "offline"
        rows.append(
            [node.name, node.role, ", ".join([state, *flags]), ", ".join(node.settings.tags), node.owner or "", seen]
        )
    show(form, "nodes", ["name", "role", "state", "tags", "owner", "seen"], nodes, rows)


@app.command()
def ls(url: Url = None, token: Token = None, form: Format = "table") -> None:
    """List the nodes of the testbed.

    Example: bentpipe node ls
    """
    _print(form, client_of(url, token).nodes())


@app.command(name="show")
def show_node(node: Node, url: Url = None, token: Token = None) -> None:
    """Print a node as JSON: its description, settings and state.

    Example: bentpipe node show attic
    """
    from bentpipe.cli.console import print_json

    print_json(client_of(url, token).node(node).to_dict())


@app.command()
def profile(
    node: Node,
    out: Annotated[
        Path, typer.Option("-o", "--out", help="The file to write, or the prefix of several.", show_default=False)
    ],
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Start of the window: ISO-8601, UTC unless it has an offset. [default: an hour before its end]",
            show_default=False,
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="TIME", help="End of the window, at most 24 hours. [default: now]", show_default=False
        ),
    ] = None,
    latency: Annotated[
        Literal["auto", "dish", "probes"],
        typer.Option(help="Delays: the terminal's, probes of experiments, or those that cover more seconds."),
    ] = "auto",
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Write it as `profile convert` does: csv, hypatia, leoreplayer, mahimahi, netem or starrynet. "
            "[default: a Profile]",
            show_default=False,
        ),
    ] = None,
    url: Url = None,
    token: Token = None,
) -> None:
    """Make the Profile of a node's link in a time window from the results of its experiments.

    Example: bentpipe node profile attic --from 2026-11-28T09:00Z --to 2026-11-28T10:00Z -o attic.parquet
    """
    import tempfile

    from bentpipe.cli.console import note
    from bentpipe.profiles.convert import ending, write_as
    from bentpipe.profiles.parquet import read_profile
    from bentpipe.profiles.show import describe

    client = client_of(url, token)
    if form is None:
        client.node_profile(node, out, begin=begin, end=end, latency=latency)
        note(describe(read_profile(out)))
        return
    ending(form)  # an unknown format is refused before anything is made
    with tempfile.TemporaryDirectory() as folder:
        made = client.node_profile(node, Path(folder) / "made.parquet", begin=begin, end=end, latency=latency)
        written = write_as(form, read_profile(made), out)
    for line in (*written.notes, *(f"wrote {file}" for file in written.files)):
        note(line)


@app.command()
def pause(node: Node, url: Url = None, token: Token = None, form: Format = "table") -> None:
    """Start nothing at a node until it is resumed.

    Example: bentpipe node pause attic
    """
    _print(form, [client_of(url, token).change_node(node, paused=True)])


@app.command()
def resume(node: Node, url: Url = None, token: Token = None, form: Format = "table") -> None:
    """Start experiments at a node again; its host's policy still holds.

    Example: bentpipe node resume attic
    """
    _print(form, [client_of(url, token).change_node(node, paused=False, draining=False)])


@app.command()
def drain(node: Node, url: Url = None, token: Token = None, form: Format = "table") -> None:
    """Let a node finish, and give it nothing new.

    Example: bentpipe node drain attic
    """
    _print(form, [client_of(url, token).change_node(node, draining=True)])


@app.command()
def tag(
    node: Node,
    tags: Annotated[
        list[str] | None, typer.Argument(metavar="[TAG]…", help="All its tags.", show_default=False)
    ] = None,
    url: Url = None,
    token: Token = None,
    form: Format = "table",
) -> None:
    """Set the tags of a node; none: it has none.

    Example: bentpipe node tag attic starlink spain
    """
    _print(form, [client_of(url, token).change_node(node, tags=tags or [])])


@app.command()
def scavenger(
    node: Node,
    state: Annotated[str, typer.Argument(metavar="on|off", help="Whether it yields to the household.")],
    url: Url = None,
    token: Token = None,
    form: Format = "table",
) -> None:
    """Let a node yield to its household, or not; a host's policy that says so still makes it yield.

    Example: bentpipe node scavenger attic on
    """
    from bentpipe.errors import UserError, shown

    if state not in ("on", "off"):
        raise UserError(shown(state), where="STATE", expected="on or off")
    _print(form, [client_of(url, token).change_node(node, scavenger=state == "on")])
