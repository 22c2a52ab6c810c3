"""Ports on which programs in a network namespace listen, from its ``/proc/PID/net``."""

from __future__ import annotations

from pathlib import Path

TCP_LISTEN = "0A"
"""State of a listening TCP socket (Linux, include/net/tcp_states.h)."""


def listening_ports(pid: int, proc: Path = Path("/proc")) -> set[int]:
    """Return the TCP ports that listen and the UDP ports that are bound, where a process is."""
    ports: set[int] = set()
    for name in ("tcp", "tcp6", "udp", "udp6"):
        try:
            lines = (proc / str(pid) / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 3 and (name.startswith("udp") or fields[3] == TCP_LISTEN):
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports
