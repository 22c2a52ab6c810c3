"""Bring a database to the program's version, and refuse one that is newer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import inspect, text

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection

    from bentpipe.testbed.orchestrator.database.engines import Database

ADVISORY_LOCK = 0x62656E74
"""Number of PostgreSQL's lock for migrations: processes that start at once migrate one after the other."""


async def migrate(database: Database, version: str = "head") -> None:
    """Bring the database to a version; ``head``: this program's.

    Raises:
        UserError: The database is newer than the program.
    """
    async with database.write() as connection:
        await connection.run_sync(_upgrade, version)


def _upgrade(connection: Connection, version: str) -> None:
    from alembic import command
    from alembic.script import ScriptDirectory

    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": ADVISORY_LOCK})
    config = _config(connection)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    present = current_version(connection) if version == "head" else version
    if present is not None and present not in known:
        raise UserError(
            f"version {present} of the database is newer than this program",
            where="db",
            expected=f"one of {', '.join(sorted(known))}",
            hint="a newer bentpipe",
        )
    command.upgrade(config, version)


def current_version(connection: Connection) -> str | None:
    """Return the version of a database; None: it is empty."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
