"""``bentpipe aware``: a service that tells programs what the terminal sees and what comes next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bentpipe.cli import options

app = typer.Typer(
    no_args_is_help=True, help="Tell programs what the terminal sees, when the next slot edge comes, and forecasts."
)

Url = Annotated[str, typer.Option("--url", help="Address of the service.")]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="File with the token. [default: no token]", show_default=False)
]
KINDS = ("telemetry", "next", "forecast", "serving")
DEFAULT_URL = "http://127.0.0.1:8790"


@app.command()
def serve(
    dish: Annotated[
        str | None,
        typer.Option(metavar="HOST[:PORT]", help="The terminal. [default: 192.168.100.1:9200]", show_default=False),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="A recording in place of a terminal. [default: none]", show_default=False),
    ] = None,
    speed: Annotated[float, typer.Option(help="With --replay: how many times as fast.")] = 1.0,
    elements: Annotated[
        Path | None,
        typer.Option(help="Orbital elements, for the serving satellite. [default: not told]", show_default=False),
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder with models (*.model). [default: no forecasts]", show_default=False),
    ] = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address to listen on.")] = "127.0.0.1:8790",
    token_file: TokenFile = None,
) -> None:
    """Serve HTTP and server-sent events until Ctrl-C. Elsewhere than on the loopback it needs a token.

    Example: bentpipe aware serve --replay RECORDING --models models/
    """
    from bentpipe.aware.running import serve_awareness
    from bentpipe.cli.console import note

    serve_awareness(
        dish=dish,
        replay=replay,
        speed=speed,
        elements=elements,
        models=models,
        listen=listen,
        token_file=token_file,
        on_note=note,
    )


@app.command()
def get(
    kind: Annotated[str, typer.Argument(metavar="telemetry|next|forecast|serving", help="What to get.")],
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Print what the service knows.

    Example: bentpipe aware get next
    """
    from bentpipe.aware.client import AwarenessClient
    from bentpipe.aware.running import read_token
    from bentpipe.aware.text import lines_of
    from bentpipe.cli.console import print_json, say
    from bentpipe.errors import UserError, did_you_mean, shown

    if kind not in KINDS:
        raise UserError(shown(kind) + did_you_mean(kind, KINDS), where="KIND", expected=", ".join(KINDS))
    document = AwarenessClient(url, read_token(token_file)).get(kind)
    if as_json:
        print_json(document)
        return
    for line in lines_of(kind, document):
        say(line)


@app.command()
def watch(
    kinds: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KIND]…", help="telemetry, next, forecast, serving. [default: all]", show_default=False
        ),
    ] = None,
    when: Annotated[
        str | None,
        typer.Option(help="Print when a condition begins to hold, as 'latency_ms > 100'.", show_default=False),
    ] = None,
    url: Url = DEFAULT_URL,
    token_file: TokenFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Print events until Ctrl-C; connects again after a break.

    Example: bentpipe aware watch --when "latency_ms > 2 * mean(latency_ms, '5s')"
    """
    import json
    import sys

    from bentpipe.aware.client import AwarenessClient
    from bentpipe.aware.running import read_token
    from bentpipe.aware.text import lines_of
    from bentpipe.cli.console import note, say

    client = AwarenessClient(url, read_token(token_file))
    for kind, document in client.events(*(kinds or ()), when=when, on_trouble=note):
        if as_json:
            say(json.dumps({"kind": kind, **document}))
        else:
            for line in lines_of(kind, document):
                say(line)
        sys.stdout.flush()
