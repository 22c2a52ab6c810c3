"""Start an orchestrator from the command line: importing this module loads no library of the extra ``testbed``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.testbed.orchestrator.defaults import AGENTS, LISTEN, home_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bentpipe.testbed.orchestrator.running import Running


def serve_testbed(
    *,
    home: Path | None = None,
    db: str | None = None,
    store: str | None = None,
    listen: str = LISTEN,
    agents: str = AGENTS,
    public: str | None = None,
    proxy: str | None = None,
    on_ready: Callable[[Running], object] = lambda _: None,
) -> None:
    """Run an orchestrator until Ctrl-C or SIGTERM.

    Args:
        home: Folder of keys, and by default of database and store; None: ``~/.local/share/bentpipe/testbed``.
        db: ``sqlite:///FILE`` or ``postgresql+asyncpg://…``; None: SQLite in `home`.
        store: A folder or ``s3://BUCKET/PREFIX``; None: in `home`.
        listen: HOST:PORT for users.
        agents: HOST:PORT for nodes, with mutual TLS.
        public: Name by which nodes reach it; None: the host of `agents`.
        proxy: Address of a proxy that ends the nodes' TLS; None: none.
        on_ready: Called once it listens.

    Raises:
        UserError: A database, folder or address that cannot be used, or the extra ``testbed`` is not installed.

    Example:
        >>> from pathlib import Path
        >>> import bentpipe as bp
        >>> bp.serve_testbed(home=Path("."), db="mysql://here")
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: db: mysql://; expected sqlite:///FILE or postgresql+asyncpg://...
    """
    try:
        from bentpipe.testbed.orchestrator.running import Settings, run
    except ImportError as error:
        missing = (error.name or "a library").partition(".")[0]
        raise UserError(f"needs {missing}", where="testbed", hint="pip install 'bentpipe[testbed]'") from None
    settings = Settings(
        home=home or home_folder(), db=db, store=store, listen=listen, agents=agents, public=public, proxy=proxy
    )
    asyncio.run(run(settings, on_ready))
