"""Network namespaces, entered by threads of their own.

A namespace lives as long as a process is in it or a descriptor of it is open. None has a name in the file system, so
nothing is left of it, nor of its interfaces, when the agent is killed.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import threading
from typing import TYPE_CHECKING, TypeVar

from bentpipe.testbed.namespaces import linux

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_IFF_UP = 0x1


def in_new_thread(function: Callable[[], T]) -> T:
    """Return the result of `function`, called in a thread that may enter namespaces; exceptions are passed on."""
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001 - raised in the caller
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def current_network() -> int:
    """Return a descriptor of this thread's network namespace."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def new_network() -> int:
    """Make a network namespace and return its descriptor. Raises `OSError`."""

    def make() -> int:
        linux.unshare(linux.CLONE_NEWNET)
        return current_network()

    return in_new_thread(make)


def in_network(descriptor: int, function: Callable[[], T]) -> T:
    """Return the result of `function`, called inside the network namespace. Raises what it raises, and `OSError`."""

    def call() -> T:
        linux.setns(descriptor, linux.CLONE_NEWNET)
        return function()

    return in_new_thread(call)


class Link:
    """An interface in a namespace, for what must be fast: counters and taking it down.

    These use an ioctl and a file of /proc that stay bound to their namespace: tens of microseconds, no netlink dump.
    """

    def __init__(self, name: str, network: int | None = None) -> None:
        """Open the interface `name` in the namespace of the descriptor; None: in this one. Raises `OSError`."""
        self._name = name.encode()
        if network is None:
            self._open()
        else:
            in_network(network, self._open)

    def _open(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._counters = os.open("/proc/thread-self/net/dev", os.O_RDONLY | os.O_CLOEXEC)

    def counters(self) -> tuple[int, int, int, int] | None:
        """Return received bytes and packets, sent bytes and packets; None: the interface is gone."""
        data = b""
        while chunk := os.pread(self._counters, 65536, len(data)):
            data += chunk
        for line in data.split(b"\n"):
            name, _, values = line.partition(b":")
            if name.strip() == self._name:
                fields = [int(value) for value in values.split()]
                return fields[0], fields[1], fields[8], fields[9]
        return None

    def down(self) -> None:
        """Take the interface down; without effect if it is gone. Raises `OSError` if the kernel refuses."""
        request = struct.pack("16sH14x", self._name, 0)
        try:
            answer = fcntl.ioctl(self._socket, _SIOCGIFFLAGS, request)
            flags = struct.unpack_from("16sH", answer)[1] & ~_IFF_UP
            fcntl.ioctl(self._socket, _SIOCSIFFLAGS, struct.pack("16sH14x", self._name, flags))
        except OSError as error:
            if error.errno != 19:  # ENODEV
                raise

    def close(self) -> None:
        """Close the descriptors."""
        self._socket.close()
        os.close(self._counters)
