"""PostgreSQL of the distribution, started for a check, perhaps killed and started again, and stopped after it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator

GUARD = 'read -r _; kill -QUIT "$(head -n 1 "$1")"'
"""Waits until the process that started the server has ended, however that was, then stops the server."""
NAME = "testbed"
"""The database that a server has from its start."""


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs; None: it is not installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "postgres").exists()), None)


class Server:
    """The server, on a Unix socket in its folder."""

    def __init__(self, folder: Path) -> None:
        """Initialize and start it, with a database. It refuses to run as root.

        Raises:
            UserError: PostgreSQL is not installed.
        """
        binaries = programs()
        if binaries is None:
            raise UserError("PostgreSQL is not installed", hint="apt install postgresql")
        self._binaries = binaries
        self.folder, self._data = folder, folder / "data"
        self._user: dict[str, Any] = {}
        self._guard: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            self._user = {"user": "postgres", "group": "postgres", "extra_groups": []}
            shutil.chown(folder, "postgres", "postgres")
        self._run("initdb", "-D", str(self._data), "-U", "test", "-A", "trust", "-N", "-E", "UTF8")
        self.start()
        self.url = self.new_database(NAME)

    def new_database(self, name: str | None = None) -> str:
        """Return the URL of a new database; without a name it gets one."""
        name = name or f"t{uuid.uuid4().hex}"
        self._psql(f"CREATE DATABASE {name}", "postgres")
        return f"postgresql+asyncpg://test@/{name}?host={self.folder}"

    @property
    def pid_file(self) -> Path:
        """File with the PID of its first process."""
        return self._data / "postmaster.pid"

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._binaries / program, *arguments],
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self._user,
        )

    def query(self, text: str) -> list[str]:
        """Return the rows of a query to the first database, each as one line."""
        return self._psql(text, NAME).splitlines()

    def _psql(self, text: str, database: str) -> str:
        command = [str(self._binaries / "psql"), "-q", "-At", "-F", " ", "-h", str(self.folder), "-U", "test"]
        return subprocess.run([*command, database, "-c", text], check=True, capture_output=True, text=True).stdout

    def start(self, limit_s: float = 30.0) -> None:
        """Start it: again and again, until what a kill left of it is gone. It recovers by its log.

        It ends with this process: a killed one leaves no server.
        """
        if self._guard is None:
            command = ["sh", "-c", GUARD, "guard", str(self.pid_file)]
            nothing = subprocess.DEVNULL
            self._guard = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing, start_new_session=True
            )
        # SIGKILL takes a process, and the kernel still writes its files: flushing would only take time.
        options = f"-c fsync=off -c listen_addresses= -c unix_socket_directories={self.folder} -c max_connections=200"
        end_s = time.monotonic() + limit_s
        while True:
            try:
                self._run("pg_ctl", "-D", str(self._data), "-w", "-l", str(self.folder / "log"), "-o", options, "start")
            except subprocess.CalledProcessError:
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.1)
            else:
                return

    @property
    def is_up(self) -> bool:
        """Whether its first process lives."""
        try:
            pid = int(self.pid_file.read_text().split("\n", 1)[0])
            return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
        except (OSError, ValueError):
            return False

    def stop(self) -> None:
        """Stop it."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "stop")
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """Yield a server in a folder of its own, which its user may reach. Raises `UserError`: it is not installed."""
    folder = Path(tempfile.mkdtemp(prefix="bentpipe-pg-", dir="/tmp"))  # short: the path of a socket has 107 bytes
    try:
        started = Server(folder)
        try:
            yield started
        finally:
            started.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
