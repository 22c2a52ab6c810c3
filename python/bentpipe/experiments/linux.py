"""The congestion controllers that Linux ships, and how one that is not there comes to be."""

from __future__ import annotations

CONTROLLERS = frozenset(
    {
        *("bbr", "bic", "cdg", "cubic", "dctcp", "highspeed", "htcp", "hybla", "illinois", "lp", "nv", "reno"),
        *("scalable", "vegas", "veno", "westwood", "yeah"),
    }
)
"""As a kernel calls them (Linux 6.18, net/ipv4/Kconfig); but for Reno, which every kernel has, of a module each."""


def how_to_have(controller: str) -> str:
    """What to do where a kernel lacks a controller."""
    if controller in CONTROLLERS:
        return f"load its module as root (`modprobe tcp_{controller}`), or leave it out"
    return "Linux ships none of that name: race it in the simulator (without --on-kernel), or leave it out"
