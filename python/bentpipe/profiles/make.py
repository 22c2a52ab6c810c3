"""Compute the Profile of a terminal behind a constellation.

`bentpipe.orbit` chooses the serving satellite of each slot and the inter-satellite links behind it,
`bentpipe.scenarios` gives the fibre delay from each gateway to the server, and the native access model computes delay,
capacity and loss.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bentpipe._native import Profile, Satellites
from bentpipe.errors import UserError, shown
from bentpipe.orbits import sky
from bentpipe.orbits.elements import DEFAULT_SKY, default_start_unix_ns, load_satellites
from bentpipe.orbits.tracks import read_track
from bentpipe.profiles.access import build_profile, with_loss
from bentpipe.profiles.build import duration_to_ns
from bentpipe.profiles.coverage import gso_exclusion_deg, reach_km
from bentpipe.profiles.origin import constellation_source, elements_source, gateways_source
from bentpipe.scenarios.fibre import FibreDelay, fibre_one_way_ms, great_circle_km, load_fibre
from bentpipe.scenarios.ground import (
    Gateway,
    GatewayList,
    Pop,
    load_gateways,
    nearest_pop,
    pop_by_code,
    read_gateways,
)
from bentpipe.scenarios.lasers import load_fleets
from bentpipe.scenarios.places import PlaceLike, as_place
from bentpipe.scenarios.shells import Shell, load_constellation
from bentpipe.scenarios.sites import Place

#: Uses of inter-satellite links: name → one line.
ISL = {
    "auto": "in slots in which no satellite above the terminal sees a gateway, as Starlink does",
    "never": "never: such slots are outages",
    "always": "wherever they shorten the path to the PoP nearest to the server",
}
#: Scheduling policy under `always`: the satellite at the start of the shortest path.
_POLICY_OF_ALWAYS = "least-delay"

#: Latitude from which on shells at 53° leave slots without a satellite above 25° [deg]: 53° and half of their coverage.
_HIGH_LATITUDE_DEG = 61.0
_LIGHT_KM_PER_MS = 299.792458

#: Share of the progress that the serving schedule takes; the access model takes the rest.
_SCHEDULE_SHARE = 0.8


class BorrowedModelWarning(UserWarning):
    """The constellation is not Starlink, but the rest of the access model is Starlink's."""


class UnpublishedRouteWarning(UserWarning):
    """No route from a PoP to the server is published: the delay is that of a stretched great circle."""


class PolarServiceWarning(UserWarning):
    """At high latitudes the path rests on polar shells, whose satellites have links only in their planes here."""


class OutageWarning(UserWarning):
    """No satellite serves the terminal for part of the time."""


def make_profile(
    site: PlaceLike | None,
    to: PlaceLike,
    *,
    start_unix_ns: int | None = None,
    duration_s: float = 300.0,
    elements: str | os.PathLike[str] | None = None,
    constellation: str | None = None,
    gateways: str | os.PathLike[str] | None = None,
    policy: str | None = None,
    isl: str | None = None,
    track: str | os.PathLike[str] | None = None,
    seed: int = 0,
    name: str | None = None,
    loss: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    on_progress: Callable[[float], object] = lambda _: None,
) -> Profile:
    """Compute the path from a terminal at `site` to a server at `to`, over the satellites that serve the terminal.

    The packaged Starlink gateways are used for every constellation, unless `gateways` names a list. The terminal keeps
    one PoP over all gateways: the PoP of the site if it has one, otherwise the PoP with the least fibre delay from the
    terminal. Without a gateway in reach it is the PoP nearest to the gateway with the least delay, and with `isl`
    ``always`` that of the server.

    Args:
        site: The terminal: a known name, ``"lat,lon[,alt_m]"``, ``(lat, lon)``, ``(lat, lon, alt_m)`` or a `Place`;
            None with `track`.
        to: The server, in the same forms.
        start_unix_ns: Start [ns since 1970, UTC]. Required with `elements`; default:
            `bentpipe.times.DEFAULT_START_UTC`, or the first point of `track`.
        duration_s: Duration [s], above 0 and at most 31 days.
        elements: A file of orbital elements (TLE or OMM, plain or gzipped). Minimum elevation and exclusion angle
            around the geostationary arc are then those of `bentpipe.orbit.DEFAULT_SKY`.
        constellation: A built-in constellation; default: `bentpipe.orbit.DEFAULT_SKY`. Not together with `elements`.
        gateways: Your own gateway list, a TOML file in the form of ``scenarios/gateways/starlink.toml``. The recipe of
            the Profile stores the gateways in reach and the hash of the file.
        policy: Scheduling policy; default: `bentpipe.orbit.DEFAULT_POLICY`, and ``least-delay`` with `isl` ``always``.
        isl: Use of inter-satellite links, a key of `ISL`; default: ``auto``.
        track: A CSV file with the positions of a moving terminal (`bentpipe.orbits.tracks.read_track`).
        seed: Seed of all random draws, 0 to 2^64 - 1.
        name: The Profile's name; default: ``SITE-TO``.
        loss: Loss environment, of `bentpipe.scenarios.losses`; default: ``busy``, for a path that a flow fills.
        parameters: Access model parameters that differ from `bentpipe.profiles.access.default_parameters`; entries
            under ``loss`` override the loss environment's.
        on_progress: Called with the fraction done, 0 to 1.

    Returns:
        The Profile: delays [ms], capacities [bit/s], loss and handovers from the start on; the same for the same
        arguments.

    Warns:
        bentpipe.orbit.StaleElementsWarning: The epochs of `elements` are days away from the start.
        BorrowedModelWarning: `constellation` is not Starlink; gateways and radio access are Starlink's all the same.
        UnpublishedRouteWarning: The delay from a PoP to the server is that of a stretched great circle.
        OutageWarning: No satellite serves the terminal for part of the time: an outage in the Profile.

    Raises:
        UserError: An unknown place, constellation, policy or loss environment; an unreadable file; a duration or seed
            out of range.

    Example:
        >>> path = make_profile("melbourne", "sydney", duration_s=30.0, seed=1)
        >>> path.name, path.duration_s
        ('melbourne-sydney', 30.0)
    """
    if (site is None) == (track is None):
        raise UserError("no site" if site is None else "site and track are given", expected="a site or a track")
    moving = None if track is None else read_track(track)
    if start_unix_ns is None:
        start_unix_ns = default_start_unix_ns(elements) if moving is None else moving.start_unix_ns
    terminal = moving.place_at(start_unix_ns) if moving is not None else as_place(site)  # type: ignore[arg-type]
    server = as_place(to)
    duration_ns = duration_to_ns(duration_s)
    if not 0 <= seed < 2**64:
        raise UserError(f"{seed}", where="seed", expected="0 to 2^64 - 1")
    satellites = load_satellites(elements, constellation, start_unix_ns)
    if elements is not None:
        satellites = satellites.with_lasers(json.dumps([fleet.model_dump() for fleet in load_fleets()]))
    links = _checked_isl(isl, satellites)
    shells = load_constellation(constellation or DEFAULT_SKY).shells
    if constellation is not None and not constellation.startswith("starlink"):
        warnings.warn(
            f"{constellation} gives the orbits; gateways, 15 s slots, grants, capacity and loss are Starlink's, "
            "since nothing is published to model them by"
            + (
                " (a geostationary path is the preset geo)"
                if all(s.slot_longitude_deg is not None for s in shells)
                else ""
            ),
            BorrowedModelWarning,
            stacklevel=2,
        )
    min_elevation_deg = min(shell.min_elevation_deg for shell in shells)
    ground = load_gateways() if gateways is None else read_gateways(gateways)
    near = _in_reach(ground, terminal, reach_km(satellites, min_elevation_deg, ground.min_elevation_deg))
    if links == "always":
        pop = _pop(server)
    else:
        pop = _pop(terminal) if near or links == "never" else _pop_over_lasers(terminal, ground)
    gateways_in_use = near if links == "never" and moving is None else ground.gateways
    schedule = sky.schedule(
        satellites,
        terminal,
        [(gateway.label, _place(gateway), _fibre(gateway, pop).one_way_ms) for gateway in gateways_in_use],
        start_unix_ns=start_unix_ns,
        duration_ns=duration_ns,
        min_elevation_deg=min_elevation_deg,
        gateway_min_elevation_deg=ground.min_elevation_deg,
        gso_exclusion_deg=gso_exclusion_deg(shells),
        policy=policy or (_POLICY_OF_ALWAYS if links == "always" else sky.DEFAULT_POLICY),
        seed=seed,
        isl=links,
        track=None if moving is None else moving.points,
        on_progress=lambda done: on_progress(done * _SCHEDULE_SHARE),
    )
    slots = json.loads(schedule)["slots"]
    used = {slot["serving"]["gateway"] for slot in slots if slot["serving"] is not None}
    exits = [gateway for gateway in ground.gateways if gateway in near or gateway.label in used]
    _warn_of_outages(slots, terminal, links)
    if elements is None and links != "never":
        _warn_of_polar_service(slots, terminal, shells)
    if used:
        _warn_of_unpublished_route(pop, server)
    profile = build_profile(
        name or f"{terminal.name}-{server.name}",
        schedule,
        json.dumps(_ground_legs(exits, pop, server)),
        with_loss(parameters or {}, loss),
        seed,
        {
            "satellites": elements_source(elements, satellites)
            if elements is not None
            else constellation_source(constellation or DEFAULT_SKY, start_unix_ns),
            "gateways": gateways_source(ground, exits),
            "gateway_min_elevation_deg": ground.min_elevation_deg,
            "gso_exclusion_deg": gso_exclusion_deg(shells),
            **({"isl": links} if any(slot["serving"] and slot["serving"].get("relays") for slot in slots) else {}),
            "schedule_seed": seed,
        },
    )
    on_progress(1.0)
    return profile


def _checked_isl(isl: str | None, satellites: Satellites) -> str:
    """Return the use of inter-satellite links; refuse what the satellites do not allow."""
    if isl is not None and isl not in ISL:
        raise UserError(shown(isl), where="isl", expected=", ".join(ISL))
    if isl in ("auto", "always") and not satellites.lasers:
        raise UserError(f"isl {isl}: the satellites have no links", expected="satellites with lasers, or isl never")
    return isl or ("auto" if satellites.lasers else "never")


def _warn_of_outages(slots: Sequence[Mapping[str, Any]], terminal: Place, isl: str) -> None:
    unserved_s = sum(slot["end_ns"] - slot["start_ns"] for slot in slots if slot["serving"] is None) / 1e9
    if unserved_s > 0:
        of_s = slots[-1]["end_ns"] / 1e9
        hint = "" if unserved_s < of_s else "; `bentpipe sites` shows coverage, `gateways` adds some of your own"
        path = "in view of a gateway" if isl == "never" else "with a path to a gateway"
        warnings.warn(
            f"{terminal.name}: no satellite {path} serves it for {unserved_s:g} of {of_s:g} s: an outage{hint}",
            OutageWarning,
            stacklevel=3,
        )


def _warn_of_polar_service(slots: Sequence[Mapping[str, Any]], terminal: Place, shells: Sequence[Shell]) -> None:
    """Warn of a place at high latitude that has no bent pipe in some slots."""
    rings = [shell.name for shell in shells if shell.isl == "ring"]
    bent = all(slot["serving"] is not None and not slot["serving"].get("relays") for slot in slots)
    if not bent and rings and abs(terminal.lat_deg) >= _HIGH_LATITUDE_DEG:
        warnings.warn(
            f"{terminal.name}: at this latitude the path rests on polar shells ({' and '.join(rings)}), which have "
            "inter-satellite links only within their planes here",
            PolarServiceWarning,
            stacklevel=3,
        )


def _warn_of_unpublished_route(pop: Pop, server: Place) -> None:
    """Warn if the delay from the PoP to the server is that of a great circle, unless both are in one city."""
    here, to = (pop.lat_deg, pop.lon_deg), (server.lat_deg, server.lon_deg)
    fibre = fibre_one_way_ms(here, to)
    if fibre.basis == "great-circle" and great_circle_km(here, to) > 2 * load_fibre().access_radius_km:
        warnings.warn(
            f"no published route from the PoP {pop.code} to {server.name}: {fibre.detail}",
            UnpublishedRouteWarning,
            stacklevel=3,
        )


def _pop(place: Place) -> Pop:
    """Return the PoP of a place."""
    return pop_by_code(place.pop) if place.pop else nearest_pop(place.lat_deg, place.lon_deg)


def _pop_over_lasers(terminal: Place, ground: GatewayList) -> Pop:
    """Return the PoP of a terminal without a gateway in reach.

    That of the site if it has one, otherwise the nearest to the gateway with the least delay from the terminal: light
    along the great circle to the gateway, then fibre. So no long fibre follows where a PoP has no gateway beside it.
    """
    if terminal.pop:
        return pop_by_code(terminal.pop)
    best: tuple[float, Pop] | None = None
    here = (terminal.lat_deg, terminal.lon_deg)
    by_distance = sorted((great_circle_km(here, (g.lat_deg, g.lon_deg)), g.label, g) for g in ground.gateways)
    for distance_km, _, gateway in by_distance:
        to_gateway_ms = distance_km / _LIGHT_KM_PER_MS
        if best is not None and to_gateway_ms >= best[0]:
            break
        pop = nearest_pop(gateway.lat_deg, gateway.lon_deg)
        total_ms = to_gateway_ms + _fibre(gateway, pop).one_way_ms
        if best is None or total_ms < best[0]:
            best = (total_ms, pop)
    return _pop(terminal) if best is None else best[1]


def _in_reach(ground: GatewayList, terminal: Place, reach_km: float) -> list[Gateway]:
    """Return the gateways that a satellite above the terminal can reach."""
    here = (terminal.lat_deg, terminal.lon_deg)
    return [g for g in ground.gateways if great_circle_km(here, (g.lat_deg, g.lon_deg)) <= reach_km]


def _ground_legs(exits: Sequence[Gateway], pop: Pop, server: Place) -> dict[str, Any]:
    """Return PoP and fibre delays from each gateway to the server, in the form of the native module."""
    from_pop = fibre_one_way_ms((pop.lat_deg, pop.lon_deg), (server.lat_deg, server.lon_deg))
    return {
        "server": server.name,
        "gateways": {
            gateway.label: {
                "pop": pop.code,
                "gateway_pop_ns": round(to_pop.one_way_ms * 1e6),
                "pop_server_ns": round(from_pop.one_way_ms * 1e6),
                "gateway_pop_fibre": {"basis": to_pop.basis, "detail": to_pop.detail},
                "pop_server_fibre": {"basis": from_pop.basis, "detail": from_pop.detail},
            }
            for gateway in exits
            for to_pop in [_fibre(gateway, pop)]
        },
    }


def _fibre(gateway: Gateway, pop: Pop) -> FibreDelay:
    return fibre_one_way_ms((gateway.lat_deg, gateway.lon_deg), (pop.lat_deg, pop.lon_deg))


def _place(gateway: Gateway) -> Place:
    """Return the position of a gateway. The list has no heights; light takes 3 µs for 1 km."""
    return Place(name=gateway.label, lat_deg=gateway.lat_deg, lon_deg=gateway.lon_deg)
