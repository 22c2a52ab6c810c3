"""The congestion controllers that Linux ships, and how to load a missing one."""

from __future__ import annotations

CONTROLLERS = frozenset(
    {
        *("bbr", "bic", "cdg", "cubic", "dctcp", "highspeed", "htcp", "hybla", "illinois", "lp", "nv", "reno"),
        *("scalable", "vegas", "veno", "westwood", "yeah"),
    }
)
"""The kernel's names (Linux 6.18, net/ipv4/Kconfig). Each is a module, except Reno, which every kernel has."""


def how_to_have(controller: str) -> str:
    """Return the remedy for a kernel without a controller."""
    if controller in CONTROLLERS:
        return f"load its module as root (`modprobe tcp_{controller}`), or leave it out"
    return "Linux ships none of that name: race it in the simulator (without `on_kernel`), or leave it out"
