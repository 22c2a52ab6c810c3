"""Summarise a Profile in numbers, as ``bentpipe profile show`` prints them."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bentpipe._native import Profile
from bentpipe.profiles import origin
from bentpipe.profiles.path import PathView, Steps, changes_hop, held, is_handover
from bentpipe.profiles.table import DIRECTIONS, Direction
from bentpipe.scenarios.losses import OWN, find_loss
from bentpipe.times import format_utc

#: Delays are sampled every 10 ms, more coarsely if that would be more than `MAX_SAMPLES`. Chosen here: much finer than
#: a slot (15 s), and a million samples take under a second.
DELAY_STEP_S = 0.01
MAX_SAMPLES = 1_000_000

QUANTILES = {"min": 0.0, "p5": 0.05, "median": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def loss_text(name: str) -> str:
    """Return the name of a loss environment with its description.

    Example:
        >>> loss_text("idle")
        'idle (a path that carries only pings)'
    """
    if name == OWN:
        return "own parameters"
    description = find_loss(name).description
    return f"{name} ({description[0].lower()}{description[1:]})"


def summarise(profile: Profile) -> dict[str, Any]:
    """Return the summary of a Profile, ready for JSON.

    Returns:
        ``name``, ``start`` (UTC), ``duration_s``, ``basis``, ``hash``, ``provenance``, ``geometry`` (inputs of a
        computed Profile, see `bentpipe.profiles.origin.geometry`; None for others), ``loss_process`` (of a computed
        Profile: its loss environment, or own; None for others), ``hops`` (name, shared_id, used_s), ``handovers`` (the
        hop changes), ``reconfigurations`` (the hop stays, perhaps with an interruption; in a measured Profile the slot
        edges, because the satellites are unknown), ``outages`` (times in which no packet gets through), ``no_path_s``
        (no hop in use), ``rtt_ms`` and per direction ``delay_ms``, ``capacity_bps`` (quantiles while the path is open;
        None: no limit, or never open), ``closed_s`` (time with a capacity of 0: no path, an interruption, an outage),
        ``loss_mean`` (over time with a path), ``loss_episodes``, ``valid_fraction`` and ``queues`` (by hop). Delays are
        for a lone small packet and empty queues, over the time in which they are known.

    Raises:
        UserError: The provenance of a computed Profile does not read.

    Example:
        >>> from bentpipe.profiles import preset_profile
        >>> summarise(preset_profile("dumbbell:rtt=40ms", 10.0))["rtt_ms"]["median"]
        40.0
    """
    view = PathView(profile)
    meta = view.metadata
    times = delay_times_s(profile)
    known = {direction: known_at(view, direction, times) for direction in DIRECTIONS}
    used = [sum(b - a for a, b, hops in view.routes() if index in hops) for index in range(len(meta["hops"]))]
    return {
        "name": meta["name"],
        "start": format_utc(meta["start_unix_ns"]),
        "duration_s": profile.duration_s,
        "basis": meta["basis"],
        "hash": profile.content_hash(),
        "provenance": {key: meta["provenance"][key] for key in ("kind", "description", "made_by", "seed", "includes")},
        "geometry": origin.geometry(meta),
        "loss_process": origin.loss_name(meta),
        "hops": [
            {"name": hop["name"], "shared_id": hop["shared_id"], "used_s": seconds}
            for hop, seconds in zip(meta["hops"], used, strict=True)
        ],
        **_events(view),
        "no_path_s": sum(b - a for a, b, hops in view.routes() if not hops),
        "rtt_ms": _quantiles(view.rtt_ms(times[known["up"] & known["down"]])),
        "up": _direction(view, "up", times[known["up"]]),
        "down": _direction(view, "down", times[known["down"]]),
    }


def delay_times_s(profile: Profile) -> NDArray[np.float64]:
    """Return the times at which a summary samples delays [s since the start]."""
    return np.arange(0.0, profile.duration_s, max(DELAY_STEP_S, profile.duration_s / MAX_SAMPLES))


def as_rows(summary: dict[str, Any]) -> tuple[list[tuple[str, str]], list[list[object]], list[str]]:
    """Format a summary for display: key-value pairs, rows of a table, and the columns of that table."""
    provenance = summary["provenance"]
    facts = [
        ("name", summary["name"]),
        ("start", f"{summary['start']}, for {summary['duration_s']:g} s"),
        ("from", f"{provenance['kind']}: {provenance['description']}"),
        ("made by", provenance["made_by"] + ("" if provenance["seed"] is None else f", seed {provenance['seed']}")),
        ("delays", "one way" if summary["basis"] == "one_way" else "half of measured RTTs"),
        ("includes", ", ".join(provenance["includes"]) or "propagation only"),
        *(origin.geometry_facts(summary["geometry"]) if summary["geometry"] is not None else []),
        *([("loss", loss_text(summary["loss_process"]))] if summary["loss_process"] is not None else []),
        ("hops", _hops(summary)),
        (
            "handovers",
            f"{summary['handovers']}, and {_count(summary['reconfigurations'], 'reconfiguration')} without one",
        ),
        ("outages", f"{summary['outages']}; no path for {summary['no_path_s']:g} s"),
        ("hash", summary["hash"]),
    ]
    rows: list[list[object]] = [["RTT [ms]", *_cells(summary["rtt_ms"], 1.0)]]
    for direction in DIRECTIONS:
        side = summary[direction]
        rows.append([f"{direction} delay [ms]", *_cells(side["delay_ms"], 1.0)])
        closed_s = side["closed_s"]
        while_open = " (never open)" if closed_s >= summary["duration_s"] else " while open" if closed_s else ""
        rows.append([f"{direction} capacity{while_open} [Mbit/s]", *_cells(side["capacity_bps"], 1e6)])
        loss = (
            "–"
            if side["loss_mean"] is None
            else f"{side['loss_mean'] * 100:.3g} % lost in {_count(side['loss_episodes'], 'episode')}"
        )
        closed = f", closed for {closed_s:.3g} s (no path, or interrupted)" if closed_s else ""
        facts.append((direction, f"{loss}, {side['valid_fraction'] * 100:.4g} % of the time known{closed}"))
    return facts, rows, ["", *QUANTILES]


def describe(profile: Profile) -> str:
    """Return a Profile in one line: name, time, loss, median RTT and capacities, and number of handovers.

    Example:
        >>> from bentpipe.profiles import preset_profile
        >>> describe(preset_profile("dumbbell:rate=100mbit,rtt=40ms", 10.0, name="wire"))
        'wire, 10 s from 2026-05-10T09:00:00Z: median RTT 40 ms, 100 Mbit/s down and 100 up, 0 handovers'
    """
    summary = summarise(profile)
    rtt = "no path" if summary["rtt_ms"] is None else f"median RTT {summary['rtt_ms']['median']:.3g} ms"
    capacities = (summary[direction]["capacity_bps"] for direction in ("down", "up"))
    down, up = ("–" if each is None else f"{each['median'] / 1e6:.3g}" for each in capacities)
    process = summary["loss_process"]
    return (
        f"{summary['name']}, {summary['duration_s']:g} s from {summary['start']}: {rtt}, {down} Mbit/s down and {up} "
        f"up, {'' if process is None else f'{process} loss, '}{_count(summary['handovers'], 'handover')}"
    )


def _hops(summary: dict[str, Any]) -> str:
    """Format the number of hops, the mean number in use at once (over the time with a path), and some names."""
    hops, with_path_s = summary["hops"], summary["duration_s"] - summary["no_path_s"]
    names = _listed([hop["name"] for hop in hops])
    if len(hops) == 1 or with_path_s <= 0:
        return f"{len(hops)}: {names}"
    at_once = sum(hop["used_s"] for hop in hops) / with_path_s
    return f"{at_once:.3g} in use at once, {len(hops)} in turn: {names}"


def _events(view: PathView) -> dict[str, int]:
    """Count handovers, reconfigurations without a handover, and outages."""
    # A first satellite after an outage is the end of the outage, not a handover.
    ends = {b["at_ns"] for a, b in pairwise(view.metadata["routes"]) if not a["hops"]}
    events = [
        event
        for event in view.handovers()
        if event["kind"]["handover"]["from_satellite"] is not None or event["at_ns"] not in ends
    ]
    moved = sum(map(changes_hop, events))
    return {"handovers": moved, "reconfigurations": len(events) - moved, "outages": _outages(view)}


def _outages(view: PathView) -> int:
    """Count outages: times without a path, or in an event other than a handover; adjacent ones are one.

    They are counted by time, not by events: an outage that lasts from the start or to the end has no event there.
    """
    spans = [(start, end) for start, end, hops in view.routes() if not hops]
    spans += [
        (event["at_ns"] / 1e9, min((event["at_ns"] + event["interruption_ns"]) / 1e9, view.duration_s))
        for event in view.metadata["events"]
        if not is_handover(event)
    ]
    count, until = 0, -math.inf
    for start, end in sorted(spans):
        count += start > until
        until = max(until, end)
    return count


def _cells(quantiles: dict[str, float] | None, unit: float) -> list[object]:
    if quantiles is None:
        return ["–"] * len(QUANTILES)
    return [round(quantiles[name] / unit, 2) for name in QUANTILES]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _listed(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def _direction(view: PathView, direction: Direction, times_s: NDArray[np.float64]) -> dict[str, Any]:
    capacity, loss = view.capacity(direction), view.loss(direction)
    path = _with_path(view, loss)
    return {
        "delay_ms": _quantiles(view.profile.delay_ms(direction, times_s)),
        "capacity_bps": _step_quantiles(_during(capacity, capacity.value > 0)),
        "closed_s": round(float(capacity.widths_s()[capacity.value == 0].sum()), 9),
        "loss_mean": path.mean() if path is not None else None,
        "loss_episodes": _episodes(path) if path is not None else 0,
        "valid_fraction": view.valid(direction).mean(),
        "queues": {hop["name"]: hop[f"{direction}_queue"]["limit"] for hop in view.metadata["hops"]},
    }


def known_at(view: PathView, direction: Direction, times_s: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether the path is known (not a gap) at each time [s]."""
    valid = view.valid(direction)
    return held(valid.t_s, valid.value, times_s) > 0


def _with_path(view: PathView, loss: Steps) -> Steps | None:
    """Return `loss` without the times that have no path; None if there is never a path."""
    covered = np.zeros(loss.t_s.shape, bool)
    for start, end, hops in view.routes():
        if hops:
            covered |= (loss.t_s >= start) & (loss.t_s < end)
    return _during(loss, covered)


def _during(steps: Steps, included: NDArray[np.bool_]) -> Steps | None:
    """Return the included steps, joined without the times between them; None if there are none."""
    if not included.any():
        return None
    widths = steps.widths_s()[included]
    starts = np.concatenate([[0.0], np.cumsum(widths)[:-1]])
    return Steps(starts, steps.value[included], float(widths.sum()))


def _episodes(loss: Steps) -> int:
    """Count the intervals with a loss probability above zero."""
    lossy = loss.value > 0
    return int(np.count_nonzero(lossy[1:] & ~lossy[:-1]) + lossy[0])


def _quantiles(values: NDArray[np.float64]) -> dict[str, float] | None:
    known = values[np.isfinite(values)]
    if not known.size:
        return None
    return {
        name: round(float(value), 6)
        for name, value in zip(QUANTILES, np.quantile(known, list(QUANTILES.values())), strict=True)
    }


def _step_quantiles(steps: Steps | None) -> dict[str, float] | None:
    if steps is None:
        return None
    values = steps.quantiles(list(QUANTILES.values()))
    if math.isinf(values.max()):
        return None
    return {name: float(value) for name, value in zip(QUANTILES, values, strict=True)}
