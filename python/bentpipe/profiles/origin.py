"""Where a computed Profile comes from: written into its provenance, and read out of it again.

The provenance's recipe (``docs/reference/profile-format.md``) holds the serving schedule with its geometry, the ground
legs, the access model's parameters and the *origin*: which satellites, by which rules.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bentpipe._native import Satellites
from bentpipe.errors import UserError
from bentpipe.orbits import elements
from bentpipe.scenarios.ground import Gateway, GatewayList
from bentpipe.scenarios.shells import load_constellation
from bentpipe.times import format_utc

#: How the detail of a plain great circle begins (`bentpipe.scenarios.fibre`).
_GREAT_CIRCLE = "great circle "
#: What a shell's `phasing_basis` means to a reader.
_PHASING = {"filing": "as filed", "chosen": "not in the filing, chosen here"}


def elements_source(path: str | os.PathLike[str], satellites: Satellites) -> dict[str, Any]:
    """What is to be known of a file of elements: its name, its hash, whose and of when its elements are."""
    epochs = satellites.elements()["epoch_unix_ns"]
    return {
        "elements": {
            "file": Path(path).name,
            "sha256": satellites.sha256,
            "satellites": len(satellites),
            "superseded": satellites.superseded,
            "first_epoch_unix_ns": int(epochs.min()),
            "last_epoch_unix_ns": int(epochs.max()),
        }
    }


def constellation_source(name: str, start_unix_ns: int) -> dict[str, Any]:
    """The same of a built-in constellation: its filing, its epoch, and altitude, inclination and phasing by shell."""
    found = load_constellation(name)
    return {
        "constellation": {
            "name": name,
            "source": found.source,
            "satellites": found.satellites,
            "epoch_unix_ns": elements.built_in_epoch_unix_ns(found, start_unix_ns),
            "shells": [
                {
                    "name": shell.name,
                    "altitude_km": shell.altitude_km,
                    "inclination_deg": shell.inclination_deg,
                    "planes": shell.planes,
                    "satellites_per_plane": shell.satellites_per_plane,
                    "phasing": shell.phasing,
                    "phasing_basis": shell.phasing_basis,
                }
                for shell in found.shells
            ],
        }
    }


def gateways_source(ground: GatewayList, in_reach: Sequence[Gateway]) -> dict[str, Any] | None:
    """Return a user's gateway list as the recipe keeps it: its file, its hash and the gateways in reach.

    None for the packaged list, which every bentpipe of that version has.
    """
    if ground.file is None:
        return None
    return {
        "file": ground.file,
        "sha256": ground.sha256,
        "source": ground.source,
        "listed": len(ground.gateways),
        "in_reach": [{"name": g.label, "lat_deg": g.lat_deg, "lon_deg": g.lon_deg} for g in in_reach],
    }


def geometry(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a Profile's geometry was computed from, ready for JSON; None unless the access model made it.

    Returns:
        ``satellites`` (as `elements_source` or `constellation_source`, with ISO-8601 epochs; None if nobody said),
        ``gateway_list`` (as `gateways_source`; None for the packaged list),
        ``rules`` (policy, its seed, elevations, the geostationary arc, slots), ``slots`` (how many), ``gateways`` and
        ``pops`` in use: each with its one-way fibre delay towards the server, what the delay rests on, and the slots
        it serves.

    Raises:
        UserError: The recipe is not what this bentpipe writes.
    """
    recipe = _recipe(metadata)
    if recipe is None:
        return None
    try:
        schedule, origin = recipe["schedule"], recipe.get("origin")
        found = {
            "satellites": None if origin is None else _readable(origin["satellites"]),
            "gateway_list": None if origin is None else origin.get("gateways"),
            "rules": {
                "policy": schedule["policy"],
                "schedule_seed": None if origin is None else origin["schedule_seed"],
                "min_elevation_deg": schedule["min_elevation_deg"],
                "gateway_min_elevation_deg": None if origin is None else origin["gateway_min_elevation_deg"],
                "gso_exclusion_deg": None if origin is None else origin["gso_exclusion_deg"],
                "slot_s": schedule["slot_period_ns"] / 1e9,
                "slot_phase_s": schedule["slot_phase_ns"] / 1e9,
            },
            "slots": len(schedule["slots"]),
            **_ground(recipe),
        }
        as_facts(found)  # whoever edited it: what cannot be put into words is refused here
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _unreadable(metadata, error) from None
    return found


def slots(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Who serves, slot by slot: empty unless the access model made the Profile.

    Returns:
        A list of ``{t_s, start, lasts_s, norad_id, satellite, gateway, pop, elevation_deg, candidates}``; the elevation
        is that at the slot's middle; who serves is None in an outage.

    Raises:
        UserError: As `geometry`.
    """
    recipe = _recipe(metadata)
    if recipe is None:
        return []
    try:
        return [_slot(slot, recipe, metadata["start_unix_ns"]) for slot in recipe["schedule"]["slots"]]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _unreadable(metadata, error) from None


def slot_starts_s(metadata: Mapping[str, Any]) -> list[float]:
    """When slots begin [s]; empty unless the access model made the Profile. Raises as `geometry`."""
    recipe = _recipe(metadata)
    try:
        return [] if recipe is None else [slot["start_ns"] / 1e9 for slot in recipe["schedule"]["slots"]]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _unreadable(metadata, error) from None


def as_facts(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """`geometry` for people: pairs of key and value."""
    rules = found["rules"]
    policy = rules["policy"] if rules["schedule_seed"] is None else f"{rules['policy']}, seed {rules['schedule_seed']}"
    angles = f"from {rules['min_elevation_deg']:g}° up"
    if rules["gateway_min_elevation_deg"] is not None:
        angles += f" (gateways: {rules['gateway_min_elevation_deg']:g}°)"
    if rules["gso_exclusion_deg"]:
        angles += f", {rules['gso_exclusion_deg']:g}° from the geostationary arc"
    facts = [
        ("satellites", _satellites(found["satellites"])),
        ("chosen by", f"{policy}, {angles}, every {rules['slot_s']:g} s"),
    ]
    if (listed := found["gateway_list"]) is not None:
        facts.append(
            (
                "gateway list",
                f"{listed['file']} (SHA-256 {listed['sha256'][:16]}…), {len(listed['in_reach'])} of its "
                f"{listed['listed']} in reach; source: {listed['source']}",
            )
        )
    for kind, key in (("gateway", "gateways"), ("PoP", "pops")):
        for leg in found[key]:
            # A great circle's detail says what it is.
            plain = leg["detail"].startswith(_GREAT_CIRCLE)
            basis = leg["detail"] if plain else f"{leg['basis']}: {leg['detail']}" if leg["basis"] else "basis not said"
            facts.append(
                (
                    kind,
                    f"{leg['name']} in {leg['slots']} of {found['slots']} slots; "
                    f"to {leg['to']} {leg['one_way_ms']:.2f} ms ({basis})",
                )
            )
    return facts


def _recipe(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    recipe = metadata["provenance"]["recipe"]
    return recipe if isinstance(recipe, dict) and "schedule" in recipe else None


def _unreadable(metadata: Mapping[str, Any], error: Exception) -> UserError:
    return UserError(
        f"{metadata['name']}: its provenance does not read ({type(error).__name__}: {error}); make the Profile again"
    )


def _readable(source: Mapping[str, Any]) -> dict[str, Any]:
    """The source of the satellites with its kind beside its facts, and epochs as UTC."""
    ((kind, facts),) = source.items()
    readable = {"kind": kind}
    for key, value in facts.items():
        name = key.removesuffix("_unix_ns")
        readable[name] = value if name == key else format_utc(value)
    return readable


def _ground(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Gateways and PoPs in use with their way towards the server, most used first."""
    ground, served = recipe["ground"], recipe["schedule"]["slots"]
    uses: dict[str, int] = {}
    for slot in served:
        if slot["serving"] is not None:
            uses[slot["serving"]["gateway"]] = uses.get(slot["serving"]["gateway"], 0) + 1
    gateways: list[dict[str, Any]] = []
    pops: dict[str, dict[str, Any]] = {}
    for name, count in sorted(uses.items(), key=lambda use: (-use[1], use[0])):
        leg = ground["gateways"][name]
        gateways.append(_leg(name, leg["pop"], leg["gateway_pop_ns"], leg.get("gateway_pop_fibre"), count))
        there = pops.setdefault(
            leg["pop"], _leg(leg["pop"], ground["server"], leg["pop_server_ns"], leg.get("pop_server_fibre"), 0)
        )
        there["slots"] += count
    return {"gateways": gateways, "pops": list(pops.values())}


def _leg(name: str, to: str, delay_ns: int, fibre: Mapping[str, str] | None, count: int) -> dict[str, Any]:
    said = fibre or {"basis": "", "detail": ""}
    delay = {"one_way_ms": delay_ns / 1e6, "basis": said["basis"], "detail": said["detail"]}
    return {"name": name, "to": to, **delay, "slots": count}


def _slot(slot: Mapping[str, Any], recipe: Mapping[str, Any], start_unix_ns: int) -> dict[str, Any]:
    serving = slot["serving"]
    row = {
        "t_s": slot["start_ns"] / 1e9,
        "start": format_utc(start_unix_ns + slot["start_ns"]),
        "lasts_s": (slot["end_ns"] - slot["start_ns"]) / 1e9,
    }
    if serving is None:
        who = dict.fromkeys(("norad_id", "satellite", "gateway", "pop", "elevation_deg"))
    else:
        middle = float(np.asarray(serving["elevation_deg"])[len(serving["elevation_deg"]) // 2])
        who = {
            "norad_id": serving["norad_id"],
            "satellite": serving["name"],
            "gateway": serving["gateway"],
            "pop": recipe["ground"]["gateways"][serving["gateway"]]["pop"],
            "elevation_deg": round(middle, 1),
        }
    return row | who | {"candidates": slot["candidates"]}


def _satellites(source: Mapping[str, Any] | None) -> str:
    if source is None:
        return "not said"
    if source["kind"] == "elements":
        late = f", {source['superseded']} other element sets left out" if source["superseded"] else ""
        return (
            f"{source['satellites']} of {source['file']} (SHA-256 {source['sha256'][:16]}…), epochs "
            f"{source['first_epoch']} to {source['last_epoch']}{late}"
        )
    shells = "; ".join(
        f"{shell['altitude_km']:g} km {shell['inclination_deg']:g}° {shell['planes']} x "
        f"{shell['satellites_per_plane']} phasing {shell['phasing']} ({_PHASING[shell['phasing_basis']]})"
        for shell in source["shells"]
    )
    return f"{source['satellites']} of {source['name']} at {source['epoch']}: {shells}"
