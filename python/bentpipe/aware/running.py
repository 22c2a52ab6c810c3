"""The service as a program: its feed, its models, its token."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe.predict.store import StoredModel

USUAL_HOST = "192.168.100.1:9200"
"""Address of a terminal in its own network."""

LEAST_TOKEN = 16
"""Least length of a token [characters]."""


def read_token(path: Path | None) -> str | None:
    """Read a token; None: there is no file. Raises `UserError`: unreadable, or too short."""
    if path is None:
        return None
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise UserError("cannot be read", where=str(path), expected="a file with a token") from None
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable():
        raise UserError(f"{len(token)} characters", where=str(path), expected=f"a token of {LEAST_TOKEN} or more")
    return token


def read_models(folder: Path | None) -> list[StoredModel]:
    """Read all models of a folder. Raises `UserError`: no folder, none in it, or a damaged one."""
    if folder is None:
        return []
    from bentpipe.predict.store import load_model

    files = sorted(folder.glob("*.model"))
    if not files:
        raise UserError("has no models", where=str(folder), expected="files *.model of `bentpipe predict train`")
    return [load_model(file) for file in files]


def usable_models(models: list[StoredModel], on_note: Callable[[str], object]) -> list[StoredModel]:
    """Return the models whose signal a terminal reports. Raises `UserError`: there are others alone."""
    from bentpipe.predict.signals import TELEMETRY, THROUGHPUT

    usable = [model for model in models if model.record.signal in (TELEMETRY, THROUGHPUT)]
    others = [model for model in models if model not in usable]
    for model in others:
        problem = f"predicts {model.record.signal}, which a terminal does not report"
        if not usable:
            raise UserError(problem, where=model.name, expected=f"a model of {TELEMETRY} or {THROUGHPUT}")
        on_note(f"{model.name}: {problem}: not used")
    return usable


def serve_awareness(
    *,
    dish: str | None = None,
    replay: Path | None = None,
    speed: float = 1.0,
    elements: Path | None = None,
    models: Path | None = None,
    listen: str = "127.0.0.1:8790",
    token_file: Path | None = None,
    on_note: Callable[[str], object] = lambda _: None,
) -> None:
    """Serve until Ctrl-C or SIGTERM.

    Args:
        dish: Address of the terminal; None: the usual one.
        replay: A recording in place of a terminal.
        speed: How many times as fast it is replayed.
        elements: Orbital elements.
        models: Folder with models.
        listen: HOST:PORT.
        token_file: File with a token.
        on_note: Called with the address once it listens.

    Raises:
        UserError: A file or an address that cannot be used, or the extras ``aware`` or ``dish`` are not installed.

    Example:
        >>> from pathlib import Path
        >>> import bentpipe as bp
        >>> bp.serve_awareness(replay=Path("none.parquet"))
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: none.parquet: ...; expected a recording, or a Parquet table
    """
    if dish is not None and replay is not None:
        raise UserError("--dish and --replay: one of the two", expected="a terminal or a recording")
    if replay is None and speed != 1.0:
        raise UserError(f"{speed:g}", where="speed", expected="--replay with it: a terminal has the speed of time")
    if replay is not None and elements is not None:
        raise UserError(str(elements), where="elements", expected="no --replay: a recording has no serving satellite")
    try:
        import uvicorn  # noqa: F401 - the service imports it late

        from bentpipe.aware.service import Service, serve
    except ImportError as error:
        missing = (error.name or "a library").partition(".")[0]
        raise UserError(f"needs {missing}", where="aware", hint="pip install 'bentpipe[aware]'") from None
    from bentpipe.aware.feeds import DishFeed, ReplayFeed
    from bentpipe.aware.state import State

    loaded = usable_models(read_models(models), on_note)
    feed = DishFeed(dish or USUAL_HOST, elements) if replay is None else ReplayFeed(replay, speed)
    has_elements = elements is not None and replay is None
    state = State(loaded, has_elements=has_elements, has_schedule=True, now_s=feed.now_s, steady_s=feed.steady_s)
    service = Service(state, read_token(token_file))

    newest: list[str] = []

    def report(trouble: str) -> None:
        service.report(trouble)
        if newest != [trouble]:
            newest[:] = [trouble]
            on_note(trouble)

    def ready(port: int) -> None:
        host = listen.rpartition(":")[0]
        on_note(f"awareness service on http://{host}:{port}/")
        feed.begin(service.observe, report)

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(service, listen, ready))
