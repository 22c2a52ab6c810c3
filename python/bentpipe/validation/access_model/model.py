"""RTTs of the model at the send times of real windows."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from bentpipe.profiles.access import build_profile, default_parameters
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.pings import ping
from bentpipe.validation.access_model.pings import SLOT_S, WINDOW_S, Floats, Site, Window
from bentpipe.validation.access_model.statistics import Summary, summarise

Params = dict[str, Any]

#: Most real windows whose hours and send times are used: selecting satellites for one takes a second.
STARTS = 12
#: Duration with a ninth slot, for replies after the end of the window.
_SPAN_S = WINDOW_S + SLOT_S


#: What the fit changes, as paths into the table. All are positive and searched by their logarithms.
FITTED = (
    "delay.load_power",
    "load.profile_log_sigma",
    "load.slot_log_sigma",
    "delay.site_offset_ms",
    "delay.grants.up_wait_ms",
    "delay.grants.down_wait_ms",
    "delay.wander.mean_ms",
    "delay.wander.relative_sigma",
    "delay.queue.mean_ms",
    "delay.queue.raised_probability",
    "delay.queue.raised_mean_ms",
    "delay.queue.hump_rate_per_s",
)


def frozen_params() -> Params:
    """Return the default table of parameters."""
    return default_parameters()


@cache
def geometry(terminal: str, server: str, start_unix_s: int) -> tuple[str, str]:
    """Return the serving schedule and ground legs (JSON) of a window, for the built-in shells at that hour."""
    made = make_profile(terminal, server, start_unix_ns=start_unix_s * 10**9, duration_s=_SPAN_S, seed=0)
    recipe = json.loads(made.metadata_json())["provenance"]["recipe"]
    return json.dumps(recipe["schedule"]), json.dumps(recipe["ground"])


def model_windows(
    site: Site, windows: Sequence[Window], params: Params, count: int, first_seed: int, *, flat: bool = False
) -> list[tuple[Floats, Floats]]:
    """Return `count` windows (times, RTTs) of the model, at the hours and send times of `STARTS` real ones in turn.

    Each has pings over a Profile with its own seed, through the simulator's link elements, without the lost ones. With
    `flat` all slots have the same geometry too.
    """
    made = []
    turns = [windows[i] for i in np.unique(np.linspace(0, len(windows) - 1, STARTS).astype(int))]
    for i in range(count):
        window = turns[i % len(turns)]
        schedule, ground = geometry(site.terminal, site.server, window.start_unix_s)
        if flat:
            schedule = _flat(schedule)
        profile = build_profile("window", schedule, ground, params, first_seed + i)
        rtt_ms = ping(profile, window.t_s, seed=first_seed + i)
        reached = ~np.isnan(rtt_ms)
        made.append((window.t_s[reached], rtt_ms[reached]))
    return made


def get(params: Params, path: str) -> float:
    """Return the value at `path`: names joined by dots."""
    at: Any = params
    for key in path.split("."):
        at = at[key]
    return float(at)


def put(params: Params, path: str, value: float) -> None:
    """Set the value at `path`."""
    *above, last = path.split(".")
    at: Any = params
    for key in above:
        at = at[key]
    at[last] = value


def at_site(params: Params, own: Mapping[str, float]) -> Params:
    """Return the parameters with a site's own ones: path → value."""
    changed = copy.deepcopy(params)
    for path, value in own.items():
        put(changed, path, value)
    return changed


def _flat(schedule: str) -> str:
    """Return the same span with one motionless satellite at the mean range."""
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


def reduced(windows: Sequence[tuple[Floats, Floats]], site: Site) -> list[Summary]:
    """Return summaries at the site's lags."""
    return [summarise(t_s, rtt_ms, site.lags_s) for t_s, rtt_ms in windows]
