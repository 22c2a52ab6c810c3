"""A Profile with an outage: for some time it has no path, or the path holds all packets."""

from __future__ import annotations

import json
from typing import Any, Literal

from bentpipe._native import Profile
from bentpipe.errors import UserError

NS_PER_S = 1_000_000_000

Packets = Literal["lost", "held"]
"""Fate of the packets: lost, as when no satellite serves the terminal (packets that are sent meanwhile find no route,
the queue is dropped, packets on the radio link arrive); or held until the path is back, by its first hop's queue."""


def with_outage(profile: Profile, start_s: float, length_s: float, packets: Packets = "lost") -> Profile:
    """Return the Profile with an outage of `length_s` from `start_s` on [s]; handovers during it do not happen.

    The path is back at its end without a further interruption, over the hops that it has by then.

    Raises:
        UserError: The outage is not within the Profile, or there is no path when it begins.

    Example:
        >>> from bentpipe.profiles.presets import preset_profile
        >>> with_outage(preset_profile("fibre", 60.0), 20, 5).name
        'fibre, outage of 5 s'
    """
    metadata: dict[str, Any] = json.loads(profile.metadata_json())
    begins, ends = round(start_s * NS_PER_S), round((start_s + length_s) * NS_PER_S)
    if not 0 < begins < ends < metadata["duration_ns"]:
        raise UserError(
            f"an outage from {start_s:g} to {start_s + length_s:g} s",
            where=profile.name,
            expected=f"0 < start, 0 < length, and an end before {profile.duration_s:g} s",
        )
    routes = metadata["routes"]
    before = [route for route in routes if route["at_ns"] < begins]
    if not before or not before[-1]["hops"]:
        raise UserError(f"no path at {start_s:g} s", where=profile.name, expected="a path before the outage")
    back = {"at_ns": ends, "hops": [route for route in routes if route["at_ns"] <= ends][-1]["hops"]}
    is_lost = packets == "lost"
    gap = [{"at_ns": begins, "hops": []}, back] if is_lost else [back] if back["hops"] != before[-1]["hops"] else []
    fate = {"queue": "drop" if is_lost else "keep", "in_flight": "deliver", "order": "clamp"}
    first = before[-1]["hops"][0]
    outage = {
        "at_ns": begins,
        "interruption_ns": ends - begins,
        "hop": first,
        "kind": "outage",
        "up": fate,
        "down": fate,
    }
    events = metadata["events"]
    metadata["routes"] = [*before, *gap, *(route for route in routes if route["at_ns"] > ends)]
    metadata["events"] = [
        *(event for event in events if event["at_ns"] < begins),
        outage,
        *(event for event in events if event["at_ns"] > ends),
    ]
    metadata["name"] = f"{profile.name}, outage of {length_s:g} s"
    return Profile.from_table(json.dumps(metadata), **profile.table())
