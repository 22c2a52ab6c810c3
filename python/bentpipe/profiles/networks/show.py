"""Describe a network: its paths at a time, and the links that several of them use."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.errors import UserError
from bentpipe.times import format_utc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe._native import Network


def check_time(network: Network, at_s: float) -> float:
    """Return a time in the network [s]. Raises `UserError` if it is outside its duration."""
    if not 0 <= at_s <= network.duration_s:
        raise UserError(f"{at_s:g} s", where="at", expected=f"0 to {network.duration_s:g} s")
    return at_s


def summarise(network: Network, at_s: float = 0.0) -> dict[str, Any]:
    """Return what `bentpipe network show --json` prints: the network, its paths and its busiest links at `at_s`.

    Raises:
        UserError: The time is outside the network's duration.

    Example:
        >>> from bentpipe.profiles.networks.make import make_network, parse_pairs
        >>> shown = summarise(make_network(parse_pairs("SYD-NYC"), duration_s=30.0))
        >>> [path["name"] for path in shown["paths"]], shown["paths"][0]["links"] > 5
        (['SYD-NYC'], True)
    """
    check_time(network, at_s)
    metadata = json.loads(network.metadata_json())
    nodes, links = metadata["nodes"], metadata["hops"]
    users: Counter[int] = Counter()
    paths = []
    for path, profile in zip(metadata["paths"], network.profiles(), strict=True):
        route = route_at(path, at_s)
        users.update(path["hops"][hop]["link"] for hop in route)
        rtt_ms = None
        if route:
            delays = [profile.delay_ms(direction, np.array([at_s])) for direction in ("up", "down")]
            rtt_ms = float(delays[0][0] + delays[1][0])
        satellites = [node for node in route_nodes(path, links, route) if nodes[node].startswith("sat:")]
        handovers = [event for event in path["events"] if "handover" in event["kind"]]
        at_station = sum(event["kind"]["handover"]["to_gateway"] is not None for event in handovers)
        paths.append(
            {
                "name": path["name"],
                "rtt_ms": rtt_ms,
                "links": len(route),
                "satellites": len(satellites),
                "from_satellite": nodes[satellites[0]].removeprefix("sat:") if satellites else None,
                "to_satellite": nodes[satellites[-1]].removeprefix("sat:") if satellites else None,
                "routes": len(path["routes"]),
                "handovers_terminal": len(handovers) - at_station,
                "handovers_station": at_station,
            }
        )
    busiest = [{"link": links[link]["name"], "paths": count} for link, count in users.most_common() if count > 1]
    return {
        "name": network.name,
        "start": format_utc(network.start_unix_ns),
        "duration_s": network.duration_s,
        "description": metadata["provenance"]["description"],
        "nodes": len(nodes),
        "links": len(links),
        "at_s": at_s,
        "links_in_use": len(users),
        "paths": paths,
        "shared_links": busiest,
    }


def route_at(path: Mapping[str, Any], at_s: float) -> list[int]:
    """Return the hops of a path of the metadata that are in use at a time."""
    hops: list[int] = []
    for route in path["routes"]:
        if route["at_ns"] > at_s * 1e9:
            break
        hops = route["hops"]
    return hops


def route_nodes(path: Mapping[str, Any], links: Sequence[Mapping[str, Any]], route: Sequence[int]) -> list[int]:
    """Return the nodes that a route passes, in order."""
    if not route:
        return []
    nodes = [path["ends"][0]]
    for hop in route:
        used = path["hops"][hop]
        ends = links[used["link"]]["ends"]
        nodes.append(ends[0] if used["reversed"] else ends[1])
    return nodes
