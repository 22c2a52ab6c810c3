"""Round trips of the model over the sending times of real windows, and the negative controls."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from bentpipe.profiles.access import build_profile, default_parameters
from bentpipe.profiles.make import make_profile
from bentpipe.validation.access_model.pings import SLOT_S, WINDOW_S, Floats, Site, Window
from bentpipe.validation.access_model.statistics import Summary, summarise

Params = dict[str, Any]

#: A ninth slot, for replies that return after the window.
_SPAN_S = WINDOW_S + SLOT_S


def frozen_params() -> Params:
    """The table of parameters the product uses."""
    return default_parameters()


@cache
def geometry(terminal: str, server: str, start_unix_s: int) -> tuple[str, str]:
    """Serving schedule and ground legs (JSON) over a window, from the built-in shells at that hour."""
    made = make_profile(terminal, server, start_unix_ns=start_unix_s * 10**9, duration_s=_SPAN_S, seed=0)
    recipe = json.loads(made.metadata_json())["provenance"]["recipe"]
    return json.dumps(recipe["schedule"]), json.dumps(recipe["ground"])


def round_trips_ms(schedule: str, ground: str, params: Params, seed: int, t_s: Floats) -> Floats:
    """Round trips of probes sent at `t_s` [s] over a Profile of this seed."""
    profile = build_profile("window", schedule, ground, params, seed)
    up_ms = profile.delay_ms("up", t_s)
    down_ms = profile.delay_ms("down", t_s + up_ms / 1e3)
    total: Floats = up_ms + down_ms
    return total


def model_windows(
    site: Site, windows: Sequence[Window], params: Params, count: int, first_seed: int, *, flat: bool = False
) -> list[tuple[Floats, Floats]]:
    """`count` windows (times, round trips) of the model, at the hours and sending times of the real ones in turn.

    With `flat` no slot differs from another in geometry either.
    """
    made = []
    for i in range(count):
        window = windows[i % len(windows)]
        schedule, ground = geometry(site.terminal, site.server, window.start_unix_s)
        if flat:
            schedule = _flat(schedule)
        rtt_ms = round_trips_ms(schedule, ground, params, first_seed + i, window.t_s)
        reached = ~np.isnan(rtt_ms)
        made.append((window.t_s[reached], rtt_ms[reached]))
    return made


def with_offset(params: Params, offset_ms: float) -> Params:
    """The same parameters with another site offset."""
    changed = copy.deepcopy(params)
    changed["delay"]["site_offset_ms"] = offset_ms
    return changed


def _flat(schedule: str) -> str:
    """The same span with one satellite standing still at the mean range."""
    plan = json.loads(schedule)
    served = [slot["serving"] for slot in plan["slots"] if slot["serving"]]
    user_km, gateway_km = (
        float(np.mean(np.concatenate([s[leg] for s in served]))) for leg in ("user_leg_km", "gateway_leg_km")
    )
    for slot in plan["slots"]:
        one = copy.deepcopy(served[0])
        ends = {"user_leg_km": user_km, "gateway_leg_km": gateway_km, "elevation_deg": 60.0, "azimuth_deg": 0.0}
        one |= {leg: [value, value] for leg, value in ends.items()}
        one["sample_step_ns"] = slot["end_ns"] - slot["start_ns"]
        slot["serving"] = one
    return json.dumps(plan)


def without_slots(params: Params) -> Params:
    """Negative control: nothing begins or ends with a slot. The mean offset stays."""
    changed = copy.deepcopy(params)
    delay, queue = changed["delay"], changed["delay"]["queue"]
    changed["load"]["slot_log_sigma"] = 0.0
    delay["interruption"]["median_ms"] = 0.0
    delay["grants"]["period_weights"] = [0.0, 0.0, 0.0, 1.0, 0.0]
    delay["site_offset_ms"] += queue["mean_ms"] + queue["raised_probability"] * queue["raised_mean_ms"]
    queue["mean_ms"] = 0.0
    queue["raised_probability"] = 0.0
    return changed


def shuffled(t_s: Floats, rtt_ms: Floats, rng: np.random.Generator) -> Floats:
    """Negative control: the same round trips, in another order within each slot."""
    slot = (t_s / SLOT_S).astype(int)
    out = rtt_ms.copy()
    for k in np.unique(slot):
        out[slot == k] = rng.permutation(rtt_ms[slot == k])
    return out


def replays(
    window: Window, count: int, rng: np.random.Generator, reduce: Callable[[Floats, Floats], Summary]
) -> list[Summary]:
    """Negative control: a model fitted to one window, which plays it again and again.

    Whole seconds are drawn anew within each slot, so that repetitions differ as much as one window lets them.
    """
    second = window.t_s.astype(int)
    made = []
    for _ in range(count):
        times, rtts = [], []
        for k in range(int(WINDOW_S)):
            first = k // int(SLOT_S) * int(SLOT_S)
            source = first + int(rng.integers(int(SLOT_S)))
            inside = second == source
            times.append(window.t_s[inside] - source + k)
            rtts.append(window.rtt_ms[inside])
        made.append(reduce(np.concatenate(times), np.concatenate(rtts)))
    return made


def reduced(windows: Sequence[tuple[Floats, Floats]], site: Site) -> list[Summary]:
    """Summaries at the site's lags."""
    return [summarise(t_s, rtt_ms, site.lags_s) for t_s, rtt_ms in windows]
