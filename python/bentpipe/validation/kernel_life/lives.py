"""The life of a loaded controller: a long transfer, loads under traffic, an end while many connections use it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from bentpipe.kernel import controllers
from bentpipe.validation.kernel_life.hosts import connect, listen, two_hosts

PART = bytes(1 << 20)
WAIT_S = 20.0
"""Longest wait for the kernel to free a registration after its last connection, which it does in the background [s]."""
STALLED_S = 30.0
"""A transfer without a new byte for so long is given up [s]."""


@dataclass(frozen=True)
class Transfer:
    """A transfer to its end.

    Attributes:
        seconds: Duration.
        gap_s: Longest time without a new byte at the receiver; infinite: it did not end.
    """

    seconds: float
    gap_s: float


def transfer(kernel_name: str, size_bytes: int) -> Transfer:
    """Transfer so many bytes between two hosts. Raises `OSError`."""
    with two_hosts() as (near_host, far_host):
        listener = listen(far_host)
        near, far = connect(near_host, listener, kernel_name)
        far.settimeout(STALLED_S)
        sender = threading.Thread(target=_send, args=(near, size_bytes))
        begin_s = last_s = time.monotonic()
        gap_s, left = 0.0, size_bytes
        sender.start()
        with listener, near:
            with far, contextlib.suppress(TimeoutError):
                while left and (count := len(far.recv(1 << 20))):
                    now_s = time.monotonic()
                    gap_s, last_s, left = max(gap_s, now_s - last_s), now_s, left - count
            sender.join()  # of a transfer that was given up, the sender is refused
        return Transfer(last_s - begin_s, gap_s if not left else float("inf"))


def _send(near: socket.socket, count: int) -> None:
    with contextlib.suppress(OSError):
        while count > 0:
            count -= near.send(PART[:count])


def cycle(name: str, times: int) -> int:
    """Load a controller, transfer 1 MB, unload it, transfer 1 MB more; so many times. Return how often all arrived."""
    arrived: list[int] = []
    with two_hosts() as (near_host, far_host):
        for _ in range(times):
            controllers.load_controller(name)
            listener = listen(far_host)
            near, far = connect(near_host, listener, controllers.kernel_name(name))
            reader = threading.Thread(target=_read, args=(far, arrived))
            reader.start()
            with listener, near:
                near.sendall(PART)
                controllers.unload_controller(name)
                near.sendall(PART)
            reader.join()
    return arrived.count(2 * len(PART))


def _read(far: socket.socket, arrived: list[int]) -> None:
    total = 0
    far.settimeout(STALLED_S)
    with far, contextlib.suppress(TimeoutError):
        while count := len(far.recv(1 << 20)):
            total += count
    arrived.append(total)


def registrations(name: str) -> frozenset[int]:
    """Return the numbers of a controller's registrations: sockets keep those of earlier loads."""
    return frozenset(each.id for each in controllers.loaded_controllers() if each.name == name)


def left_over(name: str, before: frozenset[int]) -> int:
    """Wait until a controller has no registrations but those of `before`; return how many others it has."""
    end_s = time.monotonic() + WAIT_S
    while (others := registrations(name) - before) and time.monotonic() < end_s:
        time.sleep(0.05)
    return len(others)


@dataclass(frozen=True)
class Orphans:
    """Connections whose controller was unloaded.

    Attributes:
        connections: How many use it.
        counted: How many the kernel counted.
        unload_s: Duration of the unload.
        served: How many transferred after it.
        memory_bytes: Kernel memory that they took, with their buffers.
        left_bytes: That was not given back when all had closed.
        left: Registrations that did not end with the last one.
    """

    connections: int
    counted: int
    unload_s: float
    served: int
    memory_bytes: int
    left_bytes: int
    left: int


def orphan(name: str, connections: int) -> Orphans:
    """Unload a controller while so many connections use it, and use them all afterwards. Raises `OSError`."""
    kernel_name = controllers.kernel_name(name)
    earlier = registrations(name)
    with two_hosts() as (near_host, far_host):
        loaded = controllers.load_controller(name)
        before = kernel_memory_bytes()
        listener = listen(far_host)
        pairs = [connect(near_host, listener, kernel_name) for _ in range(connections)]
        for near, far in pairs:
            _exchange(near, far)
        used = kernel_memory_bytes() - before
        counted = next(each.references for each in controllers.loaded_controllers() if each.id == loaded.id)
        begin_s = time.monotonic()
        controllers.unload_controller(name)
        unload_s = time.monotonic() - begin_s
        served = sum(_exchange(near, far) for near, far in pairs)
        listener.close()
        for near, far in pairs:
            near.close()
            far.close()
        del pairs
        left = left_over(name, earlier)
    return Orphans(connections, counted, unload_s, served, used, kernel_memory_bytes() - before, left)


def _exchange(near: socket.socket, far: socket.socket) -> bool:
    """Send 10 kB, and whether they arrive."""
    near.sendall(PART[:10_000])
    far.settimeout(10)
    left = 10_000
    try:
        while left and (count := len(far.recv(left))):
            left -= count
    except TimeoutError:
        return False
    return not left


def kernel_memory_bytes() -> int:
    """Return the memory that the kernel has in slabs and per-processor areas (`/proc/meminfo`)."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    return sizes["Slab"] + sizes["Percpu"] + sizes.get("VmallocUsed", 0)


def may_load() -> str | None:
    """Return why this process cannot load controllers; None: it can."""
    if os.geteuid() != 0:
        return "needs root"
    return None if controllers.available() else "no programs are compiled here (make kernel)"
