"""Start an orchestrator from the command line: importing this module loads no library of the extra ``testbed``."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.testbed.orchestrator.defaults import AGENTS, AUDIT_DAYS, EVENTS_DAYS, LISTEN, NODE_BYTES, home_folder

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from bentpipe.testbed.orchestrator.running import Running
    from bentpipe.testbed.schemas.views import NewToken


def serve_testbed(
    *,
    home: Path | None = None,
    db: str | None = None,
    store: str | None = None,
    listen: str = LISTEN,
    agents: str = AGENTS,
    public: str | None = None,
    proxy: str | None = None,
    events_days: int = EVENTS_DAYS,
    audit_days: int = AUDIT_DAYS,
    node_bytes: int = NODE_BYTES,
    oidc_issuer: str | None = None,
    oidc_client: str | None = None,
    oidc_secret_file: Path | None = None,
    oidc_groups: Path | None = None,
    oidc_url: str | None = None,
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
        events_days: Days for which events of agents are kept; 0: for ever.
        audit_days: Days for which lines of the audit are kept; 0: for ever.
        node_bytes: Quota of a node's committed results [bytes]; 0: none.
        oidc_issuer: Address of an OpenID Connect provider at which users log in; None: none.
        oidc_client: Name of this testbed at the provider.
        oidc_secret_file: File with its secret.
        oidc_groups: YAML file that maps groups and subjects to roles; None: nobody has a role.
        oidc_url: Address of the dashboard as browsers see it; None: ``https://PUBLIC``, or that of `listen`.
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
    with _needing_libraries():
        from bentpipe.testbed.orchestrator.logs import log_as_json
        from bentpipe.testbed.orchestrator.running import Settings, run
        from bentpipe.testbed.orchestrator.security.oidc.settings import OidcSettings
    log_as_json()
    settings = Settings(
        home=home or home_folder(),
        db=db,
        store=store,
        listen=listen,
        agents=agents,
        public=public,
        proxy=proxy,
        events_days=events_days,
        audit_days=audit_days,
        node_bytes=node_bytes,
        oidc=OidcSettings.of(oidc_issuer, oidc_client, oidc_secret_file, oidc_groups, oidc_url),
    )
    asyncio.run(run(settings, on_ready))


def back_up_testbed(
    target: str | os.PathLike[str], *, home: Path | None = None, db: str | None = None
) -> dict[str, int]:
    """Write a backup of an orchestrator's database and keys, also while it runs. The store is copied apart.

    Args:
        target: The new file; its owner alone reads it.
        home: Folder of the orchestrator; None: the usual one.
        db: URL of its database; None: SQLite in `home`.

    Returns:
        Number of rows by table.

    Raises:
        UserError: No orchestrator there, or a file that exists.

    Example:
        >>> from pathlib import Path
        >>> import bentpipe as bp
        >>> bp.back_up_testbed("backup.tar.gz", home=Path("nowhere"))
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: home: nowhere/keys: no keys; expected the folder of an orchestrator
    """
    with _needing_libraries():
        from bentpipe.testbed.orchestrator.backup import back_up
    home = home or home_folder()
    return asyncio.run(back_up(db or f"sqlite:///{home / 'testbed.db'}", home, Path(target)))


def restore_testbed(
    source: str | os.PathLike[str], *, home: Path | None = None, db: str | None = None
) -> dict[str, int]:
    """Fill a new folder and an empty database, of either kind, from a backup.

    Args:
        source: The backup.
        home: Folder without keys; None: the usual one.
        db: URL of an empty database; None: SQLite in `home`.

    Returns:
        Number of rows by table.

    Raises:
        UserError: No backup, one of a newer program, a database with tables, or a folder with keys.

    Example:
        >>> from pathlib import Path
        >>> import bentpipe as bp
        >>> bp.restore_testbed("nowhere.tar.gz", home=Path("new"))
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: FILE: nowhere.tar.gz: no backup; expected a file of `bentpipe testbed backup`
    """
    with _needing_libraries():
        from bentpipe.testbed.orchestrator.backup import restore
    home = home or home_folder()
    return asyncio.run(restore(Path(source), db or f"sqlite:///{home / 'testbed.db'}", home))


def renew_admin_token(*, home: Path | None = None, db: str | None = None) -> NewToken:
    """Make a token of the user ``admin`` for who has the orchestrator's folder, and store it there.

    An orchestrator with SQLite must not run meanwhile.

    Args:
        home: Folder of the orchestrator; None: the usual one.
        db: URL of its database; None: SQLite in `home`.

    Returns:
        The token.

    Raises:
        UserError: No orchestrator there, or it runs.

    Example:
        >>> from pathlib import Path
        >>> renew_admin_token(home=Path("nowhere"))
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: home: nowhere/keys: no keys; expected the folder of an orchestrator
    """
    with _needing_libraries():
        from bentpipe.testbed.orchestrator.running import Settings, renew_admin
    home = home or home_folder()
    if not (home / "keys" / "authority.key").is_file():
        raise UserError(f"{home / 'keys'}: no keys", where="home", expected="the folder of an orchestrator")
    return asyncio.run(renew_admin(Settings(home=home, db=db)))


@contextlib.contextmanager
def _needing_libraries() -> Iterator[None]:
    """Say which library is not installed. Raises `UserError`."""
    try:
        yield
    except ImportError as error:
        missing = (error.name or "a library").partition(".")[0]
        raise UserError(f"needs {missing}", where="testbed", hint="pip install 'bentpipe[testbed]'") from None
