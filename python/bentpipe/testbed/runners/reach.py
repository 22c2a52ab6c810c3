"""Networks that a run cannot reach: private, shared, link-local, multicast, reserved; and those of this machine.

The dish is among the first. Networks that this machine is connected to may have public addresses (`neighbours.py`).
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyroute2 import IPRoute

PROHIBITED_IPV4 = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16",
    "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
)  # fmt: skip
"""RFC 6890's special networks that lie at or near this machine, the dish (192.168.100.1) too. Loopback is the run's."""

PROHIBITED_IPV6 = ("fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "64:ff9b::/96", "::ffff:0:0/96")
"""Unique local, link-local, site-local, multicast; and IPv4 addresses in disguise."""


def split_allowed(allowed: Iterable[str]) -> tuple[list[IPv4Network], list[IPv6Network]]:
    """Return the granted networks by family."""
    networks = [ip_network(text) for text in allowed]
    return (
        [network for network in networks if isinstance(network, IPv4Network)],
        [network for network in networks if isinstance(network, IPv6Network)],
    )


def prohibited_ipv4(allowed: Iterable[str], refused: Iterable[str] = ()) -> list[IPv4Network]:
    """Return the networks that are refused although some are granted; a granted one inside is the longer prefix.

    Args:
        allowed: Granted networks, which win.
        refused: Networks that are refused beside the special ones. None of the result lies in another one.
    """
    granted, _ = split_allowed(allowed)
    networks = [*(IPv4Network(text) for text in PROHIBITED_IPV4), *split_allowed(refused)[0]]
    return [
        network
        for number, network in enumerate(networks)
        if not any(network.subnet_of(each) for each in granted)
        and not any(network.subnet_of(each) for each in networks[:number])
        and not any(network.subnet_of(each) and network != each for each in networks[number + 1 :])
    ]


def prohibited_ipv6(allowed: Iterable[str], refused: Iterable[str] = ()) -> list[IPv6Network]:
    """Return the same for IPv6."""
    _, granted = split_allowed(allowed)
    networks = [*(IPv6Network(text) for text in PROHIBITED_IPV6), *split_allowed(refused)[1]]
    return [network for network in networks if not any(network.subnet_of(each) for each in granted)]


def allow_ping() -> None:
    """Let all users of this thread's network namespace send echo requests without a raw socket."""
    maps_all_groups = Path("/proc/self/gid_map").read_text().split()[2] == "4294967295"
    Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 2147483647" if maps_all_groups else "0 0")


def prohibit(
    ip: IPRoute, allowed: Iterable[str], refused: Iterable[str], *, gateway: str | None, interface: int
) -> None:
    """Add routes that refuse what is prohibited, in the namespace of `ip`.

    Args:
        ip: Netlink in the run's namespace.
        allowed: Granted networks, which win.
        refused: Networks that are refused beside the special ones.
        gateway: Next hop to granted IPv4 networks; None: the interface is point-to-point.
        interface: Index of the run's interface.
    """
    allowed, refused = tuple(allowed), tuple(refused)
    for network in prohibited_ipv4(allowed, refused):
        if network.is_multicast:  # the kernel needs no route to send multicast; there is none but this
            ip.route("replace", dst=str(network), type="unreachable")
        else:
            ip.route("replace", dst=str(network), type="prohibit")
    for inner in prohibited_ipv6(allowed, refused):
        if not inner.is_link_local and not inner.is_multicast:
            ip.route("replace", dst=str(inner), type="prohibit", oif=1)
    granted, granted_ipv6 = split_allowed(allowed)
    for network in granted:
        via = {} if gateway is None else {"gateway": gateway}
        ip.route("replace", dst=str(network), oif=interface, **via)
    if gateway is None:
        for inner in granted_ipv6:
            ip.route("replace", dst=str(inner), oif=interface)
