"""Two namespaces with one link: a node behind its uplink, and a server node; what passes the link is noted."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.testbed.namespaces.network import in_network, new_network

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NODE, SERVER = "203.0.113.2", "203.0.113.10"
HOPS = "198.51.100.1", "198.51.100.2"
"""Next hops on the link, of the node's end and the server's."""
CONTROL, PORTS = 8790, (8800, 8900)
_SO_TIMESTAMPNS = 35


@dataclass(frozen=True, slots=True)
class Packet:
    """An IPv4 packet on the link: when it passed [s since 1970], of what, and whether the node sent it.

    `ports` of an ICMP packet are its type and 0.
    """

    t_s: float
    protocol: int
    ports: tuple[int, int]
    is_from_node: bool

    @property
    def is_of_run(self) -> bool:
        """Whether a run's program sent or gets it."""
        is_echo = self.protocol == socket.IPPROTO_ICMP and self.ports[0] in (0, 8)
        return is_echo or any(PORTS[0] <= port < PORTS[1] for port in self.ports)

    @property
    def is_message(self) -> bool:
        """Whether it is the client's side of a session."""
        return self.is_from_node and self.ports[1] == CONTROL


class World:
    """This namespace as the node's machine, and one more for the server node. To be made in a namespace of its own."""

    def __init__(self) -> None:
        """Make the link, and begin to note its packets."""
        self.far = connected_network()
        self.packets: list[Packet] = []
        self._tap = in_network(self.far, _tap)
        threading.Thread(target=self._note, daemon=True).start()

    def _note(self) -> None:
        while True:
            data, extra, _, address = self._tap.recvmsg(128, 64)
            seconds, nanoseconds = struct.unpack("qq", extra[0][2]) if extra else (time.time(), 0)
            if len(data) < 42 or data[12:14] != b"\x08\x00":
                continue
            at = 14 + 4 * (data[14] & 15)
            ports = struct.unpack("!HH", data[at : at + 4]) if data[23] in (6, 17) else (data[at], 0)
            t_s = seconds + nanoseconds / 1e9
            self.packets.append(Packet(t_s, data[23], ports, address[2] != socket.PACKET_OUTGOING))

    @contextlib.asynccontextmanager
    async def server_node(self, folder: Path, runner: str) -> AsyncIterator[None]:
        """Run a server node's agent in the other namespace."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "bentpipe.validation.testbed_latency.server", str(folder), runner),
            str(self.far),
            pass_fds=[self.far],
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            await asyncio.wait_for(process.stdout.readline(), 60)
            yield
        finally:
            process.terminate()
            await process.wait()


def connected_network() -> int:
    """Return a new network namespace with `SERVER`, linked to this one, which gets `NODE`."""
    from pyroute2 import IPRoute

    far = new_network()
    with IPRoute() as ip:
        ip.link("add", ifname="up0", kind="veth", peer={"ifname": "far0", "net_ns_fd": far})
    _address("up0", NODE, HOPS[0], HOPS[1])
    in_network(far, lambda: _address("far0", SERVER, HOPS[1], HOPS[0]))
    return far


def _address(name: str, address: str, hop: str, next_hop: str) -> None:
    """Give an end its addresses; the way out is by the other end's hop: a run reaches no network of its host."""
    from pyroute2 import IPRoute

    with IPRoute() as ip:
        ip.link("set", index=1, state="up")
        (index,) = ip.link_lookup(ifname=name)
        for each in (address, hop):  # runs are seen with the first
            ip.addr("add", index=index, address=each, prefixlen=32)
        ip.link("set", index=index, state="up")
        ip.route("add", dst="default", gateway=next_hop, oif=index, prefsrc=address, flags=["onlink"])


def _tap() -> socket.socket:
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    tap.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    tap.bind(("far0", 0))
    return tap
