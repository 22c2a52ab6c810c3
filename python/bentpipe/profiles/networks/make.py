"""Make a network from a constellation: terminals, ground stations, and the satellites between them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError, shown
from bentpipe.orbits.elements import default_start_unix_ns, load_satellites
from bentpipe.orbits.sky import policies
from bentpipe.profiles.access import loss_process
from bentpipe.profiles.build import duration_to_ns
from bentpipe.profiles.coverage import gso_exclusion_deg
from bentpipe.profiles.origin import constellation_source, elements_source
from bentpipe.scenarios.lasers import load_fleets
from bentpipe.scenarios.places import PlaceLike, as_place, parse_place
from bentpipe.scenarios.shells import load_constellation

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from bentpipe._native import Network, Satellites
    from bentpipe.scenarios.sites import Place

DEFAULT_SHELLS = "starlink-s1"
"""Constellation: Starlink's first shell, 72 planes of 22 satellites at 550 km, as in published simulations."""
DEFAULT_POLICY = "nearest"
"""Policy that selects the satellite of a place: the nearest (SatGuard, section 4)."""
CAPACITY_BPS: Mapping[str, int] = {"isl": 10**9, "gsl": 10**9}
"""Capacity of links between satellites and of links to the ground [bit/s] (SatGuard, section 4)."""
QUEUE_S = 13.2e-3
"""Limit of each queue, as time at the link's capacity [s]: the RTT of a link within a plane (1,977 km)."""
_LONGEST_QUEUE_S = 60.0
_LEAST_QUEUE_BYTES = 15_000
"""Ten large packets: slow links have at least such a queue."""
GAP_S = 0.05
"""How long a place has no link at a handover [s]; the public SatGuard prototype has no route for 50 ms."""

LONGEST_GAP_S = 5.0
"""Longest gap at a handover [s]: below a slot."""

_SLOTS = {"period_ns": 15 * 10**9, "phase_ns": 12 * 10**9}


@dataclass(frozen=True)
class Pair:
    """A terminal and a ground station, each with the name that it has in the network."""

    terminal: tuple[str, Place]
    station: tuple[str, Place]


def parse_pairs(text: str, where: str = "pairs") -> list[Pair]:
    """Parse ``SYD-NYC,london-cape-town``: two places each, the terminal first.

    A place is a name or an IATA code of `bentpipe.sites`, or ``lat/lon[/alt_m]`` as in ``0/-20-MIA``.

    Raises:
        UserError: A place is unknown, a pair has one place, or two pairs are equal.

    Example:
        >>> [(pair.terminal[0], pair.station[0]) for pair in parse_pairs("SYD-NYC,london-cape-town")]
        [('SYD', 'NYC'), ('london', 'cape-town')]
        >>> parse_pairs("-33.9/-18.4-38.7N/9.1W")[0].station[0]
        '38.7N9.1W'
    """
    pairs = [_parse_pair(part.strip(), where) for part in text.split(",")]
    names = [(pair.terminal[0], pair.station[0]) for pair in pairs]
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise UserError(f"{'-'.join(twice)} is given twice", where=where, expected="each pair once")
    return pairs


def pairs_of(places: Sequence[tuple[PlaceLike, PlaceLike]]) -> list[Pair]:
    """Return the pairs of these places, under their own names. Raises `UserError` as `parse_pairs` does.

    Example:
        >>> [pair.station[0] for pair in pairs_of([("london", (40.71, -74.01))])]
        ['40.71N74.01W']
    """
    pairs = []
    for i, pair in enumerate(places):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise UserError(shown(pair), where=f"pairs[{i}]", expected="two places")
        first, second = (as_place(place) for place in pair)
        if (first.lat_deg, first.lon_deg) == (second.lat_deg, second.lon_deg):
            raise UserError(f"{first.name} twice", where=f"pairs[{i}]", expected="two places")
        pairs.append(Pair((first.name, first), (second.name, second)))
    return pairs


def _parse_pair(text: str, where: str) -> Pair:
    cuts = [i for i, letter in enumerate(text) if letter == "-"]
    halves = [(text[:cut], text[cut + 1 :]) for cut in cuts]
    pairs = [(a, b) for a, b in halves if _known(a) is not None and _known(b) is not None]
    if not pairs:
        unknown = next((half for half in halves[0] if _known(half) is None), None) if len(cuts) == 1 else None
        raise UserError(
            shown(text) if unknown is None else f"{shown(text)}: {shown(unknown)} is no known place",
            where=where,
            expected="two places of `bentpipe sites`, such as SYD-NYC or london-johannesburg, or lat/lon for a place, "
            "such as 38.72/-9.14-NYC",
        )
    first, second = (_known(half) for half in pairs[0])
    assert first is not None  # they are known
    assert second is not None
    terminal, station = (_name(half, place) for half, place in zip(pairs[0], (first, second), strict=True))
    if (first.lat_deg, first.lon_deg) == (second.lat_deg, second.lon_deg):
        raise UserError(f"{shown(text)} is one place", where=where, expected="two places")
    return Pair((terminal, first), (station, second))


def _known(text: str) -> Place | None:
    try:
        return parse_place(text.replace("/", ","))
    except UserError:
        return None


def _name(text: str, place: Place) -> str:
    if "/" in text:
        return place.name
    return text.upper() if len(text) == 3 else text.lower()


def make_network(
    pairs: Sequence[Pair],
    *,
    start_unix_ns: int | None = None,
    duration_s: float = 300.0,
    elements: str | os.PathLike[str] | None = None,
    constellation: str | None = None,
    policy: str | None = None,
    capacity_bps: Mapping[str, int] | None = None,
    queue_s: float = QUEUE_S,
    gap_s: float = GAP_S,
    loss: str | None = None,
    isl_loss: float = 0.0,
    seed: int = 0,
    name: str | None = None,
) -> Network:
    """Make the network of these pairs: each is a path from its terminal over satellites to its ground station.

    Args:
        pairs: The paths. Places that several of them have are one node.
        start_unix_ns: Start [ns since 1970]; needed with `elements`.
        duration_s: Duration [s], above 0 and at most 31 days.
        elements: A file of orbital elements in place of `constellation`; satellites have the lasers of their launches.
        constellation: A built-in constellation; default: `DEFAULT_SHELLS`.
        policy: Policy that selects the satellite of each place, of `bentpipe.orbits.sky.policies`; default:
            `DEFAULT_POLICY`. ``least-delay``: both ends of the shortest route of each path.
        capacity_bps: Capacity of the links ``isl`` and ``gsl``; default: `CAPACITY_BPS`.
        queue_s: Limit of each queue, as time at its link's capacity [s], above 0 and at most 60; at least 15 kB.
        gap_s: How long a place has no link at a handover [s].
        loss: Loss environment of the terminals' links, of `bentpipe.scenarios.losses`; None: no loss.
        isl_loss: Probability that a packet is lost in a link between satellites, each for itself.
        seed: Seed of the loss, and of policies that draw.
        name: The network's name; default: its pairs, or their number.

    Raises:
        UserError: A value is out of range, a policy, constellation or loss environment is unknown, the satellites have
            no links, a link passes through the Earth, or a pair has no route at any time.

    Example:
        >>> make_network(parse_pairs("SYD-NYC,LON-JNB"), duration_s=30.0).path_names
        ['SYD-NYC', 'LON-JNB']
    """
    if start_unix_ns is None:
        start_unix_ns = default_start_unix_ns(elements)
    duration_ns = duration_to_ns(duration_s)
    if not 0 < queue_s <= _LONGEST_QUEUE_S:
        raise UserError(f"{queue_s:g} s", where="queue", expected=f"above 0 s, at most {_LONGEST_QUEUE_S:g} s")
    if not 0 <= gap_s <= LONGEST_GAP_S:
        raise UserError(f"{gap_s:g} s", where="gap_s", expected=f"0 to {LONGEST_GAP_S:g} s")
    if not 0 <= isl_loss <= 1:
        raise UserError(f"{isl_loss:g}", where="isl_loss", expected="a probability from 0 to 1")
    if not 0 <= seed < 2**64:
        raise UserError(f"{seed}", where="seed", expected="0 to 2^64 - 1")
    policy = DEFAULT_POLICY if policy is None else policy
    if policy not in (known := policies()):
        raise UserError(shown(policy), where="policy", expected=", ".join(known))
    shells = load_constellation(constellation or DEFAULT_SHELLS).shells
    satellites = _satellites(elements, constellation, start_unix_ns)
    places: dict[str, Place] = {}
    for pair in pairs:
        for label, place in (pair.terminal, pair.station):
            places.setdefault(label, place)
    numbers = {label: number for number, label in enumerate(places)}
    rates = {**CAPACITY_BPS, **(capacity_bps or {})}
    settings: dict[str, Any] = {
        "name": name or _network_name(pairs),
        "places": [
            {"name": label, "site": {"lat_deg": place.lat_deg, "lon_deg": place.lon_deg, "alt_m": place.alt_m}}
            for label, place in places.items()
        ],
        "pairs": [[numbers[pair.terminal[0]], numbers[pair.station[0]]] for pair in pairs],
        "start_unix_ns": start_unix_ns,
        "duration_ns": duration_ns,
        "slots": _SLOTS,
        "policy": policy,
        "min_elevation_deg": min(shell.min_elevation_deg for shell in shells),
        "gso_exclusion_deg": gso_exclusion_deg(shells) if elements is not None else 0.0,
        "isl": _capacity(rates["isl"], queue_s),
        "ground": _capacity(rates["gsl"], queue_s),
        "gap_ns": round(gap_s * 1e9),
        "loss": None if loss is None else loss_process(loss),
        "isl_loss": isl_loss,
        "origin": elements_source(elements, satellites)
        if elements is not None
        else constellation_source(constellation or DEFAULT_SHELLS, start_unix_ns),
    }
    return satellites.network(json.dumps(settings), seed)


def _satellites(elements: str | os.PathLike[str] | None, constellation: str | None, start_unix_ns: int) -> Satellites:
    if elements is not None and constellation is not None:
        raise UserError("elements and constellation are given", expected="one of them")
    shells = None if elements is not None else (constellation or DEFAULT_SHELLS)
    satellites = load_satellites(elements, shells, start_unix_ns)
    if elements is not None:
        satellites = satellites.with_lasers(json.dumps([fleet.model_dump() for fleet in load_fleets()]))
    if not satellites.lasers:
        raise UserError(
            f"{shells or elements}: its satellites have no links between them",
            expected="a constellation with inter-satellite links, such as starlink-s1",
        )
    return satellites


def _capacity(rate_bps: int, queue_s: float) -> dict[str, int]:
    return {"rate_bps": rate_bps, "queue_bytes": max(_LEAST_QUEUE_BYTES, round(rate_bps * queue_s / 8))}


def _network_name(pairs: Sequence[Pair]) -> str:
    names = [f"{pair.terminal[0]}-{pair.station[0]}" for pair in pairs]
    return "+".join(names) if len(names) <= 3 else f"{len(names)}-pairs"
