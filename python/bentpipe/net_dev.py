"""Byte counters of network interfaces, as ``/proc/net/dev`` has them (proc(5))."""

from __future__ import annotations

from pathlib import Path

from bentpipe.errors import UserError, shown

#: Those of this process's network namespace.
NET_DEV = Path("/proc/self/net/dev")
#: Counters are below this.
MOST_BYTES = 1 << 64


def parse_net_dev(text: bytes, interface: str) -> tuple[int, int]:
    """Return the received and sent bytes of an interface.

    Raises:
        UserError: There is no such interface, or its line is malformed.

    Example:
        >>> parse_net_dev(b"eth0: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0", "eth0")
        (100, 200)
    """
    for line in text.decode("ascii", "replace").splitlines():
        name, colon, numbers = line.strip().rpartition(": ")  # a name may have a colon itself
        if not colon:
            name, colon, numbers = line.strip().partition(":")
        if not colon or name.strip() != interface:
            continue
        cells = numbers.split()
        if len(cells) < 9:
            raise UserError(f"has {len(cells)} numbers", where=interface, expected="16")
        return _count(cells[0], interface), _count(cells[8], interface)
    raise UserError(f"no interface {shown(interface)}", where="interface", expected="one of this machine")


def interface_bytes(interface: str) -> tuple[int, int]:
    """Return the received and sent bytes of an interface now. Raises as `parse_net_dev` does."""
    return parse_net_dev(NET_DEV.read_bytes(), interface)


def _count(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < MOST_BYTES):
        raise UserError(f"{shown(text)} is no count of bytes", where=where)
    return int(text)
