"""Connections: SQLite with one writer and a few readers, or PostgreSQL.

SQLite before 3.51.3 can damage a database if two connections write or checkpoint at once in WAL mode, so one process
holds the file (a lock beside it), one connection writes and checkpoints, and the others only read.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sqlalchemy import URL

READERS = 4
"""Connections that read from SQLite."""
CONNECTIONS = 10
"""Connections of a process to PostgreSQL."""
EXPECTED = "sqlite:///FILE or postgresql+asyncpg://USER:PASSWORD@HOST/NAME"


class Database:
    """An open database. Make it by `Database.open`."""

    def __init__(self, url: str, writer: AsyncEngine, reader: AsyncEngine, lock_file: IO[str] | None) -> None:
        """Take open engines."""
        self.url = url
        self.is_sqlite = writer.dialect.name == "sqlite"
        self._writer, self._reader, self._lock_file = writer, reader, lock_file
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, url: str) -> Database:
        """Open a database.

        Args:
            url: ``sqlite:///FILE`` or ``postgresql+asyncpg://…``.

        Raises:
            UserError: A wrong URL, a database that another process holds, or one that does not answer.

        Example:
            >>> database = asyncio.run(Database.open("sqlite:////nowhere/x.db"))
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: db: /nowhere: no such folder; expected sqlite:///FILE or ...
        """
        parsed = _parsed(url)
        if parsed.drivername in ("sqlite", "sqlite+aiosqlite"):
            return cls._open_sqlite(url, parsed.database)
        engine = create_async_engine(
            parsed.set(drivername="postgresql+asyncpg"), pool_size=CONNECTIONS, pool_pre_ping=True
        )
        database = cls(url, engine, engine, None)
        await database._try(parsed.render_as_string(hide_password=True))
        return database

    @classmethod
    def _open_sqlite(cls, url: str, name: str | None) -> Database:
        if not name or name == ":memory:":
            raise UserError("SQLite without a file", where="db", expected=EXPECTED)
        path = Path(name)
        if not path.parent.is_dir():
            raise UserError(f"{path.parent}: no such folder", where="db", expected=EXPECTED)
        lock_file = _locked(path)
        address = f"sqlite+aiosqlite:///{path}"
        writer = create_async_engine(address, pool_size=1, max_overflow=0, connect_args={"timeout": 30})
        reader = create_async_engine(address, pool_size=READERS, max_overflow=0, connect_args={"timeout": 30})
        _prepare_sqlite(writer, "BEGIN IMMEDIATE", ("PRAGMA synchronous=FULL", "PRAGMA foreign_keys=ON"))
        _prepare_sqlite(reader, "BEGIN", ("PRAGMA wal_autocheckpoint=0", "PRAGMA query_only=ON"))
        return cls(url, writer, reader, lock_file)

    @classmethod
    async def open_reading(cls, url: str) -> Database:
        """Open a database that another process may have open, to read one state of it. Raises as `open`."""
        parsed = _parsed(url)
        if parsed.drivername not in ("sqlite", "sqlite+aiosqlite"):
            engine = create_async_engine(
                parsed.set(drivername="postgresql+asyncpg"), isolation_level="REPEATABLE READ", pool_size=1
            )
            database = cls(url, engine, engine, None)
            await database._try(parsed.render_as_string(hide_password=True))
            return database
        if not parsed.database or not Path(parsed.database).is_file():
            raise UserError(f"{parsed.database}: no such file", where="db", expected=EXPECTED)
        address = f"sqlite+aiosqlite:///file:{Path(parsed.database).resolve()}?mode=ro&uri=true"
        engine = create_async_engine(address, pool_size=1, connect_args={"timeout": 30})
        _prepare_sqlite(engine, "BEGIN", ("PRAGMA query_only=ON",), journal="")
        return cls(url, engine, engine, None)

    async def _try(self, shown_url: str) -> None:
        try:
            async with self._writer.connect():
                pass
        except (OSError, DBAPIError) as error:
            await self._writer.dispose()
            reason = " ".join(str(getattr(error, "orig", error)).split())
            raise UserError(f"{shown_url}: {reason}", where="db", expected="a database that answers") from None

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """Yield a connection in a transaction that is committed at the end, or rolled back by an exception.

        On SQLite one transaction writes at a time: never wait for anything else inside of it.
        """
        if not self.is_sqlite:
            async with self._writer.begin() as connection:
                yield connection
            return
        async with self._turn, self._writer.begin() as connection:
            yield connection

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Yield a connection that reads one consistent state."""
        async with self._reader.connect() as connection:
            yield connection

    async def close(self) -> None:
        """Close all connections; the writer last, so that it makes the checkpoint."""
        if self._reader is not self._writer:
            await self._reader.dispose()
        await self._writer.dispose()
        if self._lock_file is not None:
            self._lock_file.close()


def _parsed(url: str) -> URL:
    """Parse a database's URL. Raises `UserError`."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise UserError("no URL of a database", where="db", expected=EXPECTED) from None
    if parsed.drivername not in ("sqlite", "sqlite+aiosqlite", "postgresql", "postgresql+asyncpg"):
        raise UserError(f"{parsed.drivername}://", where="db", expected=EXPECTED)
    return parsed


def _locked(path: Path) -> IO[str]:
    """Take the lock beside a database of SQLite: a second process would damage it. Raises `UserError`."""
    try:
        lock_file = path.with_name(path.name + ".lock").open("a")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", where="db", expected="a file that can be written") from None
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock_file.close()
        raise UserError(
            f"{path}: another process uses it",
            where="db",
            expected="one orchestrator per SQLite file",
            hint="PostgreSQL for several",
        ) from None
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    return lock_file


def _prepare_sqlite(
    engine: AsyncEngine, begin: str, pragmas: tuple[str, ...], journal: str = "PRAGMA journal_mode=WAL"
) -> None:
    """Let SQLAlchemy begin transactions itself, and set pragmas on each connection."""

    @event.listens_for(engine.sync_engine, "connect")
    def connect(connection: Any, _: object) -> None:  # noqa: ANN401 - the driver's
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in (journal, "PRAGMA busy_timeout=30000", "PRAGMA cache_size=-32000", *pragmas):
            cursor.execute(pragma)
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def start(connection: Any) -> None:  # noqa: ANN401 - SQLAlchemy's
        connection.exec_driver_sql(begin)


def is_overlap(error: DBAPIError) -> bool:
    """Return whether the database refused a booking because it overlaps."""
    return "no_overlap" in str(error.orig)
