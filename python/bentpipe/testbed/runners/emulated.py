"""The network of a run on the emulated path of a Profile: the sandbox is the program of ``bentpipe run``.

So the emulator and its Run lie outside the sandbox, where the program reaches neither, and nothing is written twice.
The emulator's gateway refuses private networks; the routes here refuse them too, network by network.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.testbed.namespaces.network import Link, in_network
from bentpipe.testbed.runners.base import RunnerError
from bentpipe.testbed.runners.neighbours import connected_networks
from bentpipe.testbed.runners.reach import allow_ping, prohibit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.testbed.runners.request import Emulated

INTERFACE = "bentpipe"
"""The emulator's device at the program's end of the path."""


def command(network: Emulated, allowed: Sequence[str], inner: Sequence[str]) -> list[str]:
    """Return the command that runs `inner` behind the Profile. Raises `UserError` if there is no such file."""
    if not network.profile.is_file():
        raise UserError(str(network.profile), where="profile", expected="a Profile's file")
    line = [sys.executable, "-P", "-m", "bentpipe", "run", str(network.profile.absolute())]
    line += ["-o", str(network.run_folder.absolute()), "--seed", str(network.seed)]
    if network.server is not None:
        line += ["--server", network.server]
    if network.capture:
        line += ["--capture"]
    if allowed:  # the routes refuse what is not granted
        line += ["--allow-local"]
    return [*line, "--", *inner]


def enclose(pid: int, allowed: Sequence[str], refused: Sequence[str]) -> tuple[int, Link]:
    """Add the routes that refuse, in the network namespace of a process.

    Args:
        pid: The process.
        allowed: Granted networks, which win.
        refused: Networks that are refused beside the special ones and those that this machine is connected to.

    Returns:
        A descriptor of the namespace, and its interface.

    Raises:
        RunnerError: The kernel refused.
    """
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    def configure() -> None:
        allow_ping()
        with IPRoute() as ip:
            (index,) = ip.link_lookup(ifname=INTERFACE)
            prohibit(ip, allowed, (*refused, *connected), gateway=None, interface=index)

    try:
        network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise RunnerError(f"network of the emulation: {error.strerror}") from error
    try:
        with IPRoute() as ip:
            connected = connected_networks(ip)
        in_network(network, configure)
        return network, Link(INTERFACE, network)
    except (NetlinkError, OSError, ValueError) as error:
        os.close(network)
        raise RunnerError(f"network of the emulation: {error}") from error
