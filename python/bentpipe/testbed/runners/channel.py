"""The agent's end of the socket to the processes inside a run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class Channel:
    """Messages from inside, as they come; commands to inside."""

    def __init__(self, folder: Path) -> None:
        """Listen in the folder; `accept` waits for the processes inside."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            self._listener.bind(f"/proc/self/fd/{descriptor}/control")  # a socket's address has at most 107 bytes
        finally:
            os.close(descriptor)
        self._listener.listen(1)
        self._listener.setblocking(False)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def accept(self) -> int:
        """Wait for the connection; return the PID of the first process inside, as this process sees it."""
        connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
        self._listener.close()
        pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        self._reader, self._writer = await asyncio.open_unix_connection(sock=connection)
        return int(pid)

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None: the processes inside have ended."""
        assert self._reader is not None
        try:
            line = await self._reader.readline()
            return dict(json.loads(line)) if line else None
        except (OSError, ValueError):
            return None

    def send(self, command: str) -> None:
        """Send a command; without effect after the end."""
        if self._writer is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._writer.write(command.encode() + b"\n")

    def close(self) -> None:
        """Close: the processes inside then kill the run and end."""
        self._listener.close()
        if self._writer is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._writer.close()
