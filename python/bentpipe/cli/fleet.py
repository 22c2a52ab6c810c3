"""``bentpipe node ls`` and others: the nodes of a testbed, for users and hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
