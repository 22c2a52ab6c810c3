"""What a Profile holds, in numbers: the summary ``bentpipe profile show`` prints."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bentpipe._native import Profile
from bentpipe.profiles import origin
from bentpipe.profiles.path import PathView, Steps, held, is_handover, moves
from bentpipe.profiles.table import DIRECTIONS, Direction
from bentpipe.times import format_utc

#: Delays are looked at every 10 ms, more coarsely in Profiles longer than `MAX_SAMPLES` of those. Chosen here: finer
#: than a slot (15 s) by far, and a million samples take under a second.
DELAY_STEP_S = 0.01
MAX_SAMPLES = 1_000_000

QUANTILES = {"min": 0.0, "p5": 0.05, "median": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def summarise(profile: Profile) -> dict[str, Any]:
    """The summary of `profile`, ready for JSON.

    Returns:
        ``name``, ``start`` (UTC), ``duration_s``, ``basis``, ``hash``, ``provenance``, ``geometry`` (what a computed
        Profile was computed from, see `bentpipe.profiles.origin.geometry`; None for others), ``hops`` (name, shared_id,
        used_s), ``handovers`` (the path moves to another hop), ``reconfigurations`` (it stays on its hop, perhaps
        interrupted: of a measured Profile the edges of slots, of which nobody knows where the path went),
        ``outages`` (stretches in which nothing gets through), ``no_path_s`` (no hop in use), ``rtt_ms`` and per
        direction ``delay_ms``, ``capacity_bps`` (quantiles over time; None where nothing limits), ``loss_mean`` (over
        the time with a path), ``loss_episodes``, ``valid_fraction`` and ``queues`` (by hop). Delays are those of a lone
        small packet on empty queues, over the time in which they are known.
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
    """When a summary looks at delays [s since the start]."""
    return np.arange(0.0, profile.duration_s, max(DELAY_STEP_S, profile.duration_s / MAX_SAMPLES))


def as_rows(summary: dict[str, Any]) -> tuple[list[tuple[str, str]], list[list[object]], list[str]]:
    """A summary for people: pairs of key and value, the rows of a table, and that table's columns."""
    provenance = summary["provenance"]
    facts = [
        ("name", summary["name"]),
        ("start", f"{summary['start']}, for {summary['duration_s']:g} s"),
        ("from", f"{provenance['kind']}: {provenance['description']}"),
        ("made by", provenance["made_by"] + ("" if provenance["seed"] is None else f", seed {provenance['seed']}")),
        ("delays", "one way" if summary["basis"] == "one_way" else "half of measured RTTs"),
        ("includes", ", ".join(provenance["includes"]) or "propagation only"),
        *(origin.as_facts(summary["geometry"]) if summary["geometry"] is not None else []),
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
        rows.append([f"{direction} capacity [Mbit/s]", *_cells(side["capacity_bps"], 1e6)])
        loss = (
            "–"
            if side["loss_mean"] is None
            else f"{side['loss_mean'] * 100:.3g} % lost in {_count(side['loss_episodes'], 'episode')}"
        )
        facts.append((direction, f"{loss}, {side['valid_fraction'] * 100:.4g} % of the time known"))
    return facts, rows, ["", *QUANTILES]


def _hops(summary: dict[str, Any]) -> str:
    """How many there are, how many are in use at once (the mean, over the time with a path), and some names."""
    hops, with_path_s = summary["hops"], summary["duration_s"] - summary["no_path_s"]
    names = _listed([hop["name"] for hop in hops])
    if len(hops) == 1 or with_path_s <= 0:
        return f"{len(hops)}: {names}"
    at_once = sum(hop["used_s"] for hop in hops) / with_path_s
    return f"{at_once:.3g} in use at once, {len(hops)} in turn: {names}"


def _events(view: PathView) -> dict[str, int]:
    """Handovers, reconfigurations without one, and outages, each apart from the others and from losses."""
    # A satellite that comes after nobody takes over from none: it ends an outage.
    ends = {b["at_ns"] for a, b in pairwise(view.metadata["routes"]) if not a["hops"]}
    events = [
        event
        for event in view.handovers()
        if event["kind"]["handover"]["from_satellite"] is not None or event["at_ns"] not in ends
    ]
    moved = sum(map(moves, events))
    return {"handovers": moved, "reconfigurations": len(events) - moved, "outages": _outages(view)}


def _outages(view: PathView) -> int:
    """Stretches without a path or in an event other than a handover; those that touch are one.

    Counted by their time and not by their events: one that lasts from the beginning or to the end has no event there.
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


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _listed(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def _direction(view: PathView, direction: Direction, times_s: NDArray[np.float64]) -> dict[str, Any]:
    capacity, loss = view.capacity(direction), view.loss(direction)
    path = _with_path(view, loss)
    return {
        "delay_ms": _quantiles(view.profile.delay_ms(direction, times_s)),
        "capacity_bps": _step_quantiles(capacity),
        "loss_mean": path.mean() if path is not None else None,
        "loss_episodes": _episodes(path) if path is not None else 0,
        "valid_fraction": view.valid(direction).mean(),
        "queues": {hop["name"]: hop[f"{direction}_queue"]["limit"] for hop in view.metadata["hops"]},
    }


def known_at(view: PathView, direction: Direction, times_s: NDArray[np.float64]) -> NDArray[np.bool_]:
    """At which of the times the path is known."""
    valid = view.valid(direction)
    return held(valid.t_s, valid.value, times_s) > 0


def _with_path(view: PathView, loss: Steps) -> Steps | None:
    """`loss` with the time without a path cut out; None if there is never a path."""
    covered = np.zeros(loss.t_s.shape, bool)
    for start, end, hops in view.routes():
        if hops:
            covered |= (loss.t_s >= start) & (loss.t_s < end)
    if not covered.any():
        return None
    widths = loss.widths_s()[covered]
    starts = np.concatenate([[0.0], np.cumsum(widths)[:-1]])
    return Steps(starts, loss.value[covered], float(widths.sum()))


def _episodes(loss: Steps) -> int:
    """How many stretches with a probability above zero there are."""
    bad = loss.value > 0
    return int(np.count_nonzero(bad[1:] & ~bad[:-1]) + bad[0])


def _quantiles(values: NDArray[np.float64]) -> dict[str, float] | None:
    known = values[np.isfinite(values)]
    if not known.size:
        return None
    return {
        name: round(float(value), 6)
        for name, value in zip(QUANTILES, np.quantile(known, list(QUANTILES.values())), strict=True)
    }


def _step_quantiles(steps: Steps) -> dict[str, float] | None:
    values = steps.quantiles(list(QUANTILES.values()))
    if math.isinf(values.max()):
        return None
    return {name: float(value) for name, value in zip(QUANTILES, values, strict=True)}
