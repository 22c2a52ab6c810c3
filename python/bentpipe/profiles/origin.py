"""Origin of a computed Profile: written to its provenance, and read from it.

The provenance's recipe (``docs/reference/profile-format.md``) holds the serving schedule with its geometry, the ground
legs, the access model's parameters and the *origin*: the satellites and the selection rules.
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
from bentpipe.profiles import access
from bentpipe.scenarios.ground import Gateway, GatewayList
from bentpipe.scenarios.shells import load_constellation
from bentpipe.times import format_utc

#: Prefix of the detail of a great-circle delay (`bentpipe.scenarios.fibre`).
_GREAT_CIRCLE = "great circle "
#: Text for each `phasing_basis` of a shell.
_PHASING = {"filing": "as filed", "chosen": "chosen here, as the filing has none"}


def elements_source(path: str | os.PathLike[str], satellites: Satellites) -> dict[str, Any]:
    """Return the origin of a file of elements: name, hash, number of satellites, and first and last epoch."""
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
    """Return the origin of a built-in constellation: filing, epoch, and altitude, inclination and phasing by shell."""
    constellation = load_constellation(name)
    return {
        "constellation": {
            "name": name,
            "source": constellation.source,
            "satellites": constellation.satellites,
            "epoch_unix_ns": elements.built_in_epoch_unix_ns(constellation, start_unix_ns),
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
                for shell in constellation.shells
            ],
        }
    }


def gateways_source(ground: GatewayList, in_reach: Sequence[Gateway]) -> dict[str, Any] | None:
    """Return the recipe's entry for a user's gateway list: file, hash and gateways in reach.

    None for the packaged list, which is part of every bentpipe of that version.
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
    """Return the inputs of a computed Profile's geometry, ready for JSON; None unless the access model made it.

    Returns:
        ``satellites`` (as `elements_source` or `constellation_source`, with ISO-8601 epochs; None if not stored),
        ``gateway_list`` (as `gateways_source`; None for the packaged list),
        ``rules`` (policy, its seed, elevations, the geostationary arc, slots), ``slots`` (how many),
        ``track_points`` (of a moving terminal's track; 0: it stays in its place),
        ``isl`` (use of inter-satellite links, slots over them, fewest and most links; None: no slot has any),
        ``gateways`` and ``pops`` in use: each with its one-way fibre delay [ms] towards the server, the basis of the
        delay, and the number of slots.

    Raises:
        UserError: The recipe is not in the form that this bentpipe writes.
    """
    recipe = _recipe(metadata)
    if recipe is None:
        return None
    try:
        schedule, origin = recipe["schedule"], recipe.get("origin")
        inputs = {
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
            "track_points": len(schedule.get("track") or ()),
            "isl": _isl(recipe),
            **_ground(recipe),
        }
        geometry_facts(inputs)  # refuse an edited recipe that cannot be displayed
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _unreadable(metadata, error) from None
    return inputs


def slots(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the serving satellite of each slot; empty unless the access model made the Profile.

    Returns:
        A list of ``{t_s, start, lasts_s, norad_id, satellite, relays, gateway, pop, elevation_deg, candidates}``; the
        elevation is that at the slot's middle, relays are the satellites (catalogue numbers) after the serving one. In
        an outage satellite, gateway, PoP and elevation are None.

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
    """Return the begin of each slot [s]; empty unless the access model made the Profile. Raises as `geometry`."""
    recipe = _recipe(metadata)
    try:
        return [] if recipe is None else [slot["start_ns"] / 1e9 for slot in recipe["schedule"]["slots"]]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise _unreadable(metadata, error) from None


def loss_name(metadata: Mapping[str, Any]) -> str | None:
    """Return the name of a computed Profile's loss environment (``own``: own parameters); None for others.

    Raises:
        UserError: As `geometry`.
    """
    recipe = _recipe(metadata)
    try:
        return None if recipe is None else access.loss_name(recipe["params"]["loss"])
    except (KeyError, TypeError) as error:
        raise _unreadable(metadata, error) from None


def geometry_facts(inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Format the result of `geometry` for display, as key-value pairs."""
    rules = inputs["rules"]
    policy = rules["policy"] if rules["schedule_seed"] is None else f"{rules['policy']}, seed {rules['schedule_seed']}"
    angles = f"from {rules['min_elevation_deg']:g}° up"
    if rules["gateway_min_elevation_deg"] is not None:
        angles += f" (gateways: {rules['gateway_min_elevation_deg']:g}°)"
    if rules["gso_exclusion_deg"]:
        angles += f", {rules['gso_exclusion_deg']:g}° from the geostationary arc"
    moves = f"on a track of {inputs['track_points']} points; the place above is that of its start"
    facts = [
        *([("terminal", moves)] if inputs["track_points"] else []),
        ("satellites", _satellites(inputs["satellites"])),
        *_shells(inputs["satellites"]),
        ("scheduling", f"{policy}, {angles}, every {rules['slot_s']:g} s"),
    ]
    if (isl := inputs["isl"]) is not None:
        fewest, most = isl["links"]
        facts.append(
            (
                "lasers",
                f"{isl['use']}: in {isl['slots']} of {inputs['slots']} slots, "
                + (f"{most} link{'' if most == 1 else 's'}" if fewest == most else f"{fewest} to {most} links"),
            )
        )
    if (listed := inputs["gateway_list"]) is not None:
        facts.append(
            (
                "gateway list",
                f"{listed['file']} (SHA-256 {listed['sha256'][:16]}…), {len(listed['in_reach'])} of its "
                f"{listed['listed']} in reach; source: {listed['source']}",
            )
        )
    for kind, key in (("gateway", "gateways"), ("PoP", "pops")):
        for leg in inputs[key]:
            plain = leg["detail"].startswith(_GREAT_CIRCLE)
            basis = leg["detail"] if plain else f"{leg['basis']}: {leg['detail']}" if leg["basis"] else "basis unknown"
            facts.append(
                (
                    kind,
                    f"{leg['name']} in {leg['slots']} of {inputs['slots']} slots; "
                    f"to {leg['to']} {leg['one_way_ms']:.2f} ms ({basis})",
                )
            )
    return facts


def _recipe(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    recipe = metadata["provenance"]["recipe"]
    return recipe if isinstance(recipe, dict) and "schedule" in recipe else None


def _unreadable(metadata: Mapping[str, Any], error: Exception) -> UserError:
    return UserError(
        f"the provenance does not read ({type(error).__name__}: {error}); make the Profile again",
        where=f"{metadata['name']}",
    )


def _readable(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return the origin of the satellites as one flat dictionary with `kind`, and epochs in UTC."""
    ((kind, facts),) = source.items()
    readable = {"kind": kind}
    for key, value in facts.items():
        name = key.removesuffix("_unix_ns")
        readable[name] = value if name == key else format_utc(value)
    return readable


def _ground(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return the gateways and PoPs in use with their fibre delays towards the server, most used first."""
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
        pop = pops.setdefault(
            leg["pop"], _leg(leg["pop"], ground["server"], leg["pop_server_ns"], leg.get("pop_server_fibre"), 0)
        )
        pop["slots"] += count
    return {"gateways": gateways, "pops": list(pops.values())}


def _isl(recipe: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the use of inter-satellite links; None if no slot has any."""
    served = [slot["serving"] for slot in recipe["schedule"]["slots"] if slot["serving"] is not None]
    links = [count for serving in served if (count := len(serving.get("relays", ())))]
    if not links:
        return None
    use = (recipe.get("origin") or {}).get("isl") or "unknown use"
    return {"use": use, "slots": len(links), "links": [min(links), max(links)]}


def _leg(name: str, to: str, delay_ns: int, fibre: Mapping[str, str] | None, count: int) -> dict[str, Any]:
    source = fibre or {"basis": "", "detail": ""}
    delay = {"one_way_ms": delay_ns / 1e6, "basis": source["basis"], "detail": source["detail"]}
    return {"name": name, "to": to, **delay, "slots": count}


def _slot(slot: Mapping[str, Any], recipe: Mapping[str, Any], start_unix_ns: int) -> dict[str, Any]:
    serving = slot["serving"]
    row = {
        "t_s": slot["start_ns"] / 1e9,
        "start": format_utc(start_unix_ns + slot["start_ns"]),
        "lasts_s": (slot["end_ns"] - slot["start_ns"]) / 1e9,
    }
    if serving is None:
        satellite = dict.fromkeys(("norad_id", "satellite", "gateway", "pop", "elevation_deg")) | {"relays": []}
    else:
        middle = float(np.asarray(serving["elevation_deg"])[len(serving["elevation_deg"]) // 2])
        satellite = {
            "norad_id": serving["norad_id"],
            "satellite": serving["name"],
            "relays": [relay["norad_id"] for relay in serving.get("relays", ())],
            "gateway": serving["gateway"],
            "pop": recipe["ground"]["gateways"][serving["gateway"]]["pop"],
            "elevation_deg": round(middle, 1),
        }
    return row | satellite | {"candidates": slot["candidates"]}


def _satellites(source: Mapping[str, Any] | None) -> str:
    if source is None:
        return "unknown"
    if source["kind"] == "elements":
        superseded = f", {source['superseded']} other element sets left out" if source["superseded"] else ""
        return (
            f"{source['satellites']} of {source['file']} (SHA-256 {source['sha256'][:16]}…), epochs "
            f"{source['first_epoch']} to {source['last_epoch']}{superseded}"
        )
    return f"{source['satellites']} of {source['name']} at {source['epoch']}"


def _shells(source: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return the shells of a built-in constellation as a fact; none for elements."""
    if source is None or source["kind"] == "elements":
        return []
    shells = [
        f"{shell['altitude_km']:g} km {shell['inclination_deg']:g}° {shell['planes']} x "
        f"{shell['satellites_per_plane']} phasing {shell['phasing']}"
        for shell in source["shells"]
    ]
    bases = [_PHASING[shell["phasing_basis"]] for shell in source["shells"]]
    if len(set(bases)) == 1:
        return [("shells", f"{'; '.join(shells)} (phasing {bases[0]})")]
    return [("shells", "; ".join(f"{shell} ({basis})" for shell, basis in zip(shells, bases, strict=True)))]
