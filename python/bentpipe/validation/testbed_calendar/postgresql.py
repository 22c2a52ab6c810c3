"""PostgreSQL of the distribution, started for a check and stopped after it."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator


def postgresql_programs() -> Path | None:
    """Return the folder of PostgreSQL's programs; None: it is not installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "postgres").exists()), None)


@contextlib.contextmanager
def postgresql_server() -> Iterator[Path]:
    """Yield the folder of the Unix socket of a server of its own; PostgreSQL refuses to run as root.

    Raises:
        UserError: PostgreSQL is not installed.
    """
    programs = postgresql_programs()
    if programs is None:
        raise UserError("PostgreSQL is not installed", hint="apt install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="bentpipe-pg-", dir="/tmp"))  # short: the path of a socket has 107 bytes
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        shutil.chown(folder, "postgres", "postgres")
    data = folder / "data"
    options = f"-c fsync=off -c listen_addresses= -c unix_socket_directories={folder} -c max_connections=200"
    run = functools.partial(
        subprocess.run, check=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **user
    )
    try:
        run([programs / "initdb", "-D", data, "-U", "test", "-A", "trust", "-N", "-E", "UTF8"])
        run([programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start"])
        try:
            yield folder
        finally:
            run([programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_database(server: Path) -> str:
    """Return the URL of a new database of a server. Raises `UserError`: PostgreSQL is not installed."""
    programs = postgresql_programs()
    if programs is None:
        raise UserError("PostgreSQL is not installed", hint="apt install postgresql")
    name = f"t{uuid.uuid4().hex}"
    command = [
        str(programs / "psql"),
        "-q",
        "-h",
        str(server),
        "-U",
        "test",
        "postgres",
        "-c",
        f"CREATE DATABASE {name}",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return f"postgresql+asyncpg://test@/{name}?host={server}"
