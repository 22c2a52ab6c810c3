"""``bentpipe testbed``: the orchestrator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import options

app = typer.Typer(no_args_is_help=True, help="Run the orchestrator of a testbed, make tokens.")

Home = Annotated[
    Path | None,
    typer.Option(
        help="Folder of keys, database and store. [default: ~/.local/share/bentpipe/testbed]", show_default=False
    ),
]
Db = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="sqlite:///FILE or postgresql+asyncpg://… [default: in --home]", show_default=False
    ),
]
Url = Annotated[
    str | None,
    typer.Option(help="Address of the orchestrator. [default: http://127.0.0.1:8791]", show_default=False),
]
Token = Annotated[
    str | None,
    typer.Option(help="The user's token. [default: $BENTPIPE_TESTBED_TOKEN]", show_default=False),
]


@app.command()
def up(
    home: Home = None,
    db: Db = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="DIR|s3://…", help="Where results go. [default: in --home]", show_default=False),
    ] = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address for users.")] = "127.0.0.1:8791",
    agents: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address for nodes (TLS).")] = "127.0.0.1:8792",
    public: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="Name by which nodes reach it. [default: of --agents]", show_default=False),
    ] = None,
    proxy: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="A proxy that ends the nodes' TLS and sends Client-Cert. [default: none]",
            show_default=False,
        ),
    ] = None,
    events_days: Annotated[
        int, typer.Option(min=0, max=36_500, help="Days for which events of nodes are kept; 0: for ever.")
    ] = 90,
    audit_days: Annotated[
        int, typer.Option(min=0, max=36_500, help="Days for which the audit is kept; 0: for ever.")
    ] = 365,
    node_bytes: Annotated[
        int, typer.Option(min=0, help="Bytes of a node's results in the store; 0: no quota.")
    ] = 100_000_000_000,
    oidc_issuer: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="OpenID Connect provider at which users log in. [default: none]", show_default=False
        ),
    ] = None,
    oidc_client: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Name of this testbed at the provider.", show_default=False),
    ] = None,
    oidc_secret_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the client's secret.", show_default=False)
    ] = None,
    oidc_groups: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="YAML: roles by group and subject. [default: nobody has a role]", show_default=False
        ),
    ] = None,
    oidc_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Dashboard as browsers see it. [default: https:// and --public, or --listen]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run the orchestrator until Ctrl-C. At the first start it prints an admin's token, once.

    Example: bentpipe testbed up --agents 0.0.0.0:8792 --public testbed.example.org
    """
    from bentpipe.cli.console import flush, say
    from bentpipe.testbed.orchestrator.starting import serve_testbed

    def ready(running: object) -> None:
        for line in running.lines():  # type: ignore[attr-defined]
            say(line)
        flush()

    serve_testbed(
        home=home,
        db=db,
        store=store,
        listen=listen,
        agents=agents,
        public=public,
        proxy=proxy,
        events_days=events_days,
        audit_days=audit_days,
        node_bytes=node_bytes,
        oidc_issuer=oidc_issuer,
        oidc_client=oidc_client,
        oidc_secret_file=oidc_secret_file,
        oidc_groups=oidc_groups,
        oidc_url=oidc_url,
        on_ready=ready,
    )


@app.command()
def token(
    role: Annotated[str, typer.Option(help="node, viewer, experimenter, host, reviewer or admin.")],
    name: Annotated[
        str | None, typer.Option(help="Name of the user, or of the node. [default: any node]", show_default=False)
    ] = None,
    home: Home = None,
    db: Db = None,
    url: Url = None,
    user_token: Annotated[
        str | None, typer.Option("--token", help="An admin's token. [default: that of --home]", show_default=False)
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Make a token, and print it once; for a node: the whole command that joins it, valid for an hour.

    `--role admin` without --name makes a new token of the user admin in --home, while the orchestrator is stopped.

    Example: bentpipe testbed token --role node --name attic
    """
    from bentpipe.cli.console import print_json, say
    from bentpipe.errors import UserError
    from bentpipe.testbed.client import TestbedClient
    from bentpipe.testbed.orchestrator.defaults import admin_file

    if role == "admin" and name is None and url is None and user_token is None:
        from bentpipe.testbed.orchestrator.starting import renew_admin_token

        made = renew_admin_token(home=home, db=db)
    else:
        client = TestbedClient(url, user_token, admin_file(home))
        if role == "node":
            joining = client.make_join_token(name=name)
            if as_json:
                print_json(joining.to_dict())
            else:
                say(joining.command)
            return
        if name is None:
            raise UserError("none", where="name", expected="the name of the user")
        made = client.make_token(name, role)
    if as_json:
        print_json(made.to_dict())
    else:
        say(made.token)


@app.command()
def laptop(
    folder: Annotated[Path, typer.Option(help="Folder of everything; a later start goes on with it.")] = Path(
        "out/testbed"
    ),
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of the page.")] = "127.0.0.1:8791",
    agents: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address for nodes.")] = "127.0.0.1:8792",
    tour: Annotated[bool, typer.Option(help="Submit experiments that show what it can do.")] = True,
) -> None:
    """Run a whole testbed on this machine until Ctrl-C: two homes behind emulated Starlink paths, and a server.

    Example: bentpipe testbed laptop --folder out/testbed
    """
    from bentpipe.cli.console import flush, say
    from bentpipe.testbed.laptop.supervising import serve_laptop_testbed

    def tell(line: str) -> None:
        say(line)
        flush()

    serve_laptop_testbed(folder, listen=listen, agents=agents, with_tour=tour, say=tell)


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new file.")], home: Home = None, db: Db = None
) -> None:
    """Write all rows and the keys into one file, also while the orchestrator runs. Copy the store apart.

    Example: bentpipe testbed backup testbed.tar.gz
    """
    from bentpipe.cli.console import say
    from bentpipe.testbed.orchestrator.starting import back_up_testbed

    counts = back_up_testbed(file, home=home, db=db)
    say(f"{file}: {sum(counts.values())} rows and the keys")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")], home: Home = None, db: Db = None
) -> None:
    """Fill a new folder and an empty database from a backup; it may be of the other kind.

    Example: bentpipe testbed restore testbed.tar.gz --db postgresql+asyncpg://localhost/testbed
    """
    from bentpipe.cli.console import say
    from bentpipe.testbed.orchestrator.starting import restore_testbed

    counts = restore_testbed(file, home=home, db=db)
    say(f"{sum(counts.values())} rows and the keys")
