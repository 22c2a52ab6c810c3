"""Handing a network namespace from one process to another, over a Unix socket."""

from __future__ import annotations

import array
import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def give_network(path: Path, name: str) -> str:
    """Give this process's network namespace to whoever listens at `path`; return the answer."""
    descriptor = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(str(path))
            message = array.array("i", [descriptor])
            client.sendmsg([name.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, message)])
            return client.recv(1000).decode()
    finally:
        os.close(descriptor)


def take_network(connection: socket.socket) -> tuple[str, int]:
    """Return the name and the descriptor of the namespace that a process gave."""
    data, descriptors, _, _ = socket.recv_fds(connection, 1000, 1)
    return data.decode(), descriptors[0]
