"""The congestion controllers that Linux ships, and how to load a missing one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

CONTROLLERS = frozenset(
    {
        *("bbr", "bic", "cdg", "cubic", "dctcp", "highspeed", "htcp", "hybla", "illinois", "lp", "nv", "reno"),
        *("scalable", "vegas", "veno", "westwood", "yeah"),
    }
)
"""The kernel's names (Linux 6.18, net/ipv4/Kconfig). Each is a module, except Reno, which every kernel has."""


def how_to_have(controller: str, programs: Collection[str] = ()) -> str:
    """Return the remedy for a kernel without a controller; `programs`: those that `bentpipe kernel load` has."""
    if controller in programs:
        return f"load it as root (`bentpipe kernel load {controller}`), or leave it out"
    if controller in CONTROLLERS:
        return f"load its module as root (`modprobe tcp_{controller}`), or leave it out"
    return "Linux ships none of that name: race it in the simulator (without `on_kernel`), or leave it out"
