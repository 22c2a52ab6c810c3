"""Networks that this machine is connected to, and its next hops: a household may use public addresses for both."""

from __future__ import annotations

import socket
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyroute2 import IPRoute

RTN_UNICAST, RT_SCOPE_LINK = 1, 253
"""Values of rtnetlink(7): a route to one destination; one whose destination is on the link."""

SHORTEST_PREFIX = 8
"""Shorter link routes are default routes, perhaps in two halves, as of a tunnel: no network is that large."""

LOOPBACK = 1
"""Index of the loopback interface."""


def connected_networks(ip: IPRoute) -> tuple[str, ...]:
    """Return the networks on this machine's links, and the addresses of its next hops, of both families.

    They are those of now: a network that is connected later is refused to runs that are prepared later.

    Args:
        ip: Netlink in this machine's namespace.
    """
    networks = set()
    for family, is_ipv6 in ((socket.AF_INET, False), (socket.AF_INET6, True)):
        for route in ip.get_routes(family=family):
            if route["type"] != RTN_UNICAST:
                continue
            hops = [route, *(route.get_attr("RTA_MULTIPATH") or ())]
            gateways = [address for hop in hops for address in _gateways(hop)]
            networks.update(gateways)
            destination = route.get_attr("RTA_DST")
            # IPv6 has no scopes of routes: on the link is what has no gateway.
            is_on_link = not gateways if is_ipv6 else route["scope"] == RT_SCOPE_LINK
            if (
                destination is not None
                and is_on_link
                and route["dst_len"] >= SHORTEST_PREFIX
                and route.get_attr("RTA_OIF") != LOOPBACK
            ):
                networks.add(str(ip_network(f"{destination}/{route['dst_len']}", strict=False)))
    return tuple(sorted(networks))


def _gateways(hop: Any) -> list[str]:  # noqa: ANN401 - a message of pyroute2
    """Return the address of a next hop as a network of one; `RTA_VIA`: an IPv6 router of an IPv4 route."""
    via = hop.get_attr("RTA_VIA")
    addresses = [hop.get_attr("RTA_GATEWAY"), via.get("addr") if isinstance(via, dict) else None]
    return [str(ip_network(address)) for address in addresses if address]
