"""Addresses, ports and homes of the laptop's testbed."""

from __future__ import annotations

from dataclasses import dataclass

PATH_SERVER = "100.64.0.1"
"""Address of the far end of every emulated path, as homes see it: `bentpipe run` gives it."""
PATH_INTERFACE = "bentpipe"
"""Interface of an emulated path at both of its ends."""
INTERNET = "198.51.100.10"
"""Address of the server node and of the way to the orchestrator (TEST-NET-2, RFC 5737)."""
AGENTS_PORT = 8792
"""Port of the orchestrator for agents."""
CONTROL_PORT = 8793
"""Port of the server node's sessions."""
PROGRAMS = (8800, 8820)
"""Ports of the server node's programs: first, and last but one."""
HOUSEHOLD_PORT = 8799
"""Port that sends to households."""
VIDEO_S = 10.0
"""How long a household uses its link [s]."""
DISH = "192.168.100.1"
"""Address of a terminal, as real ones have it."""


@dataclass(frozen=True)
class Home:
    """A home with a node.

    Attributes:
        name: Name of the node.
        number: Number, for its addresses.
        site: Place, as `bentpipe sites` lists it.
        to: Place of the server.
    """

    name: str
    number: int
    site: str
    to: str

    @property
    def gateway(self) -> str:
        """The internet's end of its link."""
        return f"198.51.100.{16 + 4 * self.number + 1}"

    @property
    def uplink(self) -> str:
        """The far end of its path on that link."""
        return f"198.51.100.{16 + 4 * self.number + 2}"


HOMES = (
    Home("attic", 0, "louvain", "london"),
    Home("barn", 1, "madrid", "frankfurt"),
)
"""The homes."""
