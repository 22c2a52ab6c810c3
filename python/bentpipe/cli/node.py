"""``bentpipe node``: the agent of a testbed on this host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Take part in a testbed with this host: join, run.")

Folder = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the agent. [default: /var/lib/bentpipe-node, or ~/.local/state/bentpipe-node for users]",
        show_default=False,
    ),
]


@app.command()
def join(
    url: Annotated[str, typer.Argument(metavar="URL", help="The testbed's address for nodes: https://HOST:PORT.")],
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Join token of `bentpipe testbed token --role node`.")],
    name: Annotated[
        str | None, typer.Option(help="Name of the node. [default: the token's, or this host's]", show_default=False)
    ] = None,
    role: Annotated[str, typer.Option(help="client: behind a terminal; server: clients reach it.")] = "client",
    dish: Annotated[str, typer.Option(metavar="HOST|none", help="The terminal.")] = "192.168.100.1:9200",
    policy: Annotated[
        Path | None, typer.Option(help="The host's policy, YAML. [default: careful]", show_default=False)
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where clients reach a server node (UDP).", show_default=False),
    ] = None,
    elements: Annotated[
        Path | None, typer.Option(help="Orbital elements, for the serving satellite.", show_default=False)
    ] = None,
    ping: Annotated[
        str | None, typer.Option(metavar="HOST", help="Ping it ten times a second for triggers.", show_default=False)
    ] = None,
    router: Annotated[
        str | None,
        typer.Option(metavar="INTERFACE[@URL]", help="Counters of the home router.", show_default=False),
    ] = None,
    weather: Annotated[str | None, typer.Option(help="File or URL of the weather.", show_default=False)] = None,
    listen: Annotated[
        str, typer.Option(metavar="ADDRESS", help="A server node: where it waits for clients.")
    ] = "0.0.0.0",
    ports: Annotated[
        str, typer.Option(metavar="FIRST-END", help="A server node: ports of its programs, without END.")
    ] = "8800-8900",
    reach: Annotated[
        list[str] | None,
        typer.Option(metavar="NETWORK", help="A private network that runs may reach; repeatable.", show_default=False),
    ] = None,
    folder: Folder = None,
    only: Annotated[bool, typer.Option("--only", help="Join, and start nothing.")] = False,
) -> None:
    """Join a testbed, then run its agent until Ctrl-C. Nothing listens on this host; it dials out.

    Example: bentpipe node join https://testbed.example.org:8792 bpj_… --policy policy.yml
    """
    from bentpipe.cli.console import note
    from bentpipe.errors import UserError, shown
    from bentpipe.testbed.agent.entering import join_testbed

    first, _, end = ports.partition("-")
    if not (first.isdecimal() and end.isdecimal()):
        raise UserError(shown(ports), where="ports", expected="FIRST-END, as 8800-8900")
    where, joined = join_testbed(
        url,
        token,
        name=name,
        role=role,
        dish=None if dish == "none" or role == "server" else dish,
        policy=policy,
        control=control,
        elements=elements,
        ping=ping,
        router=router,
        weather=weather,
        listen=listen,
        ports=(int(first), int(end)),
        reach=reach or (),
        folder=folder,
    )
    note(f"joined as {joined}; files in {where}")
    if not only:
        _run(where)


@app.command()
def run(folder: Folder = None) -> None:
    """Run the agent of a host that has joined, until Ctrl-C or SIGTERM.

    Example: bentpipe node run
    """
    _run(folder)


@app.command()
def unit(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="node, kernel (its kernel service) or testbed (an orchestrator).")
    ] = "node",
) -> None:
    """Print a unit of systemd with this installation's Python.

    Example: bentpipe node unit > /etc/systemd/system/bentpipe-node.service
    """
    from bentpipe.cli.console import say
    from bentpipe.testbed.units import unit_text

    say(unit_text(name), end="")


def _run(folder: Path | None) -> None:
    from bentpipe.cli.console import note
    from bentpipe.testbed.agent.starting import serve_node

    serve_node(folder, note)
