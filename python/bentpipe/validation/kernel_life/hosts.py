"""Two hosts for real TCP: network namespaces with a veth pair between them, which no name in the file system keeps."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bentpipe.testbed.namespaces.network import in_network, new_network

if TYPE_CHECKING:
    from collections.abc import Iterator

NEAR, FAR = "198.18.0.1", "198.18.0.2"
"""Addresses of the two hosts (RFC 2544)."""


@contextmanager
def two_hosts() -> Iterator[tuple[int, int]]:
    """Make two connected hosts; the values are descriptors of their networks. Raises `OSError`."""
    near, far = new_network(), new_network()
    try:
        _run(near, "ip link add v0 type veth peer name v1", f"ip link set v1 netns /proc/{os.getpid()}/fd/{far}")
        for network, name, address in ((near, "v0", NEAR), (far, "v1", FAR)):
            _run(network, f"ip address add {address}/24 dev {name}", f"ip link set {name} up", "ip link set lo up")
            _run(network, "sysctl -qw net.ipv4.tcp_congestion_control=reno")  # a paced default leaves a socket paced
        yield near, far
    finally:
        os.close(near)
        os.close(far)


def _run(network: int, *lines: str) -> None:
    def call() -> None:
        for line in lines:
            _call(line.split())

    in_network(network, call)


def _call(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise OSError(error.returncode, error.stderr.strip()) from error


def listen(network: int, backlog: int = 4096) -> socket.socket:
    """Return a listening socket of the far host."""
    return in_network(network, lambda: socket.create_server((FAR, 0), backlog=backlog))


def connect(network: int, listener: socket.socket, kernel_name: str) -> tuple[socket.socket, socket.socket]:
    """Connect from the near host with a controller; return both ends."""

    def near_end() -> socket.socket:
        near = socket.socket()
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, kernel_name.encode())
        near.connect(listener.getsockname())
        return near

    near = in_network(network, near_end)
    return near, listener.accept()[0]
