"""Addresses, ports and houses of the laptop's testbed."""

from __future__ import annotations

from dataclasses import dataclass

PATH_SERVER = "100.64.0.1"
"""Address of the far end of every emulated path, as houses see it: `bentpipe run` gives it."""
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
DISH = "192.168.100.1"
"""Address of a terminal, as real ones have it."""


@dataclass(frozen=True)
class House:
    """A house with a node.

    Attributes:
        name: Name of the node.
        number: Number, for its addresses.
        site: Place, as `bentpipe sites` lists it.
        to: Place of the server.
        uses_after_s: When its household begins to use the link [s]; None: never.
        uses_for_s: For how long [s].
    """

    name: str
    number: int
    site: str
    to: str
    uses_after_s: float | None = None
    uses_for_s: float = 20.0

    @property
    def gateway(self) -> str:
        """The internet's end of its link."""
        return f"198.51.100.{16 + 4 * self.number + 1}"

    @property
    def uplink(self) -> str:
        """The far end of its path on that link."""
        return f"198.51.100.{16 + 4 * self.number + 2}"

    @property
    def link_network(self) -> str:
        """Network of that link."""
        return f"198.51.100.{16 + 4 * self.number}/30"


HOUSES = (
    House("attic", 0, "louvain", "london", uses_after_s=75.0),
    House("barn", 1, "madrid", "frankfurt"),
)
"""The houses."""
