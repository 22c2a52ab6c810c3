"""Backup and restore: all rows of one consistent state, and the keys, in one file; it fits both databases.

The store of results is not in it: copy it as files or objects are copied, after the backup. Partial uploads are not in
it either: agents send them anew.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import column, insert, inspect, select, table

from bentpipe.errors import UserError
from bentpipe.testbed.orchestrator.database.engines import Database
from bentpipe.testbed.orchestrator.database.migrate import current_version, migrate
from bentpipe.testbed.orchestrator.database.tables import Table

if TYPE_CHECKING:
    from sqlalchemy import Connection, TableClause
    from sqlalchemy.ext.asyncio import AsyncConnection

FORMAT = 1
ROWS = 1000
"""Rows of one step."""
KEYS = ("authority.key", "authority.pem")


async def back_up(db: str, home: Path, target: Path) -> dict[str, int]:
    """Write a backup while the orchestrator runs. Return the number of rows of each table.

    Raises:
        UserError: No database, no keys, or a file that exists or cannot be written.
    """
    if target.exists():
        raise UserError(f"{target}: exists", where="FILE", expected="a new file")
    keys = home / "keys"
    if not all((keys / name).is_file() for name in KEYS):
        raise UserError(f"{keys}: no keys", where="home", expected="the folder of an orchestrator")
    database = await Database.open_reading(db)
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)  # never another user's file
    except OSError as error:
        raise UserError(f"{target}: {error.strerror}", where="FILE", expected="a file that can be written") from None
    try:
        with os.fdopen(descriptor, "wb") as raw:
            with tarfile.open(fileobj=raw, mode="w:gz", compresslevel=3) as archive:
                async with database.read() as connection:
                    counts = await _write(archive, connection)
                for name in KEYS:
                    archive.add(keys / name, f"keys/{name}")
            raw.flush()
            os.fsync(raw.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
        await database.close()
    return counts


async def _write(archive: tarfile.TarFile, connection: AsyncConnection) -> dict[str, int]:
    version = await connection.run_sync(current_version)
    if version is None:
        raise UserError("the database is empty", where="db", expected="that of an orchestrator")
    _add(archive, "backup.json", json.dumps({"format": FORMAT, "version": version}).encode())
    counts = {}
    for each in await _tables(connection):
        with tempfile.TemporaryFile() as lines:
            counts[each.name] = 0
            async with connection.stream(select(each)) as result:
                async for rows in result.partitions(ROWS):
                    text = "".join(json.dumps(list(row), separators=(",", ":")) + "\n" for row in rows)
                    await asyncio.to_thread(lines.write, text.encode())
                    counts[each.name] += len(rows)
            info = tarfile.TarInfo(f"tables/{each.name}.jsonl")
            info.size = lines.tell()
            lines.seek(0)
            archive.addfile(info, lines)
    return counts


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


async def restore(source: Path, db: str, home: Path) -> dict[str, int]:
    """Fill an empty database and a folder without keys from a backup. Return the number of rows of each table.

    Raises:
        UserError: No backup, one of a newer program, a database with tables, or a folder with keys.
    """
    keys = home / "keys"
    if any((keys / name).exists() for name in KEYS):
        raise UserError(f"{keys}: has keys", where="home", expected="a new folder")
    try:
        archive = tarfile.open(source, "r:gz")  # noqa: SIM115 - closed below
    except (OSError, tarfile.TarError):
        raise UserError(f"{source}: no backup", where="FILE", expected="a file of `bentpipe testbed backup`") from None
    with archive:
        head = _head(archive, source)
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = await Database.open(db)
        try:
            async with database.read() as connection:
                if await connection.run_sync(lambda sync: inspect(sync).has_table("alembic_version")):
                    raise UserError("has tables", where="db", expected="an empty database")
            await migrate(database, str(head["version"]))
            async with database.write() as connection:
                tables = await _tables(connection)
                counts = {each.name: await _fill(archive, connection, each) for each in tables}
            await migrate(database)
        finally:
            await database.close()
        keys.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in KEYS:
            descriptor = os.open(keys / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_member(archive, f"keys/{name}").read())
    return counts


async def _tables(connection: AsyncConnection) -> list[TableClause]:
    """Return the tables of a database with the columns that it has: an older version has fewer of both."""

    def present(sync: Connection) -> list[TableClause]:
        inspector = inspect(sync)
        names = set(inspector.get_table_names())
        tables = []
        for known in Table.metadata.sorted_tables:
            if known.name in names:
                columns = {each["name"] for each in inspector.get_columns(known.name)}
                own = [column(each.name, each.type) for each in known.columns if each.name in columns]
                tables.append(table(known.name, *own))
        return tables

    return await connection.run_sync(present)


def _head(archive: tarfile.TarFile, source: Path) -> dict[str, Any]:
    try:
        head: dict[str, Any] = json.loads(_member(archive, "backup.json").read())
        if head["format"] == FORMAT:
            return head
    except (ValueError, KeyError, TypeError, tarfile.TarError, OSError, EOFError):
        pass
    raise UserError(f"{source}: no backup of this format", where="FILE", expected="one of `bentpipe testbed backup`")


def _member(archive: tarfile.TarFile, name: str) -> Any:  # noqa: ANN401 - a binary file
    try:
        member = archive.extractfile(name)
    except KeyError:
        member = None
    if member is None:
        raise UserError(f"{name} is missing", where="FILE", expected="a whole backup")
    return member


async def _fill(archive: tarfile.TarFile, connection: AsyncConnection, into: TableClause) -> int:
    names, count = [each.name for each in into.columns], 0
    batch: list[dict[str, Any]] = []
    for line in _member(archive, f"tables/{into.name}.jsonl"):
        batch.append(dict(zip(names, json.loads(line), strict=True)))
        if len(batch) == ROWS:
            await connection.execute(insert(into), batch)
            count, batch = count + len(batch), []
    if batch:
        await connection.execute(insert(into), batch)
    return count + len(batch)
