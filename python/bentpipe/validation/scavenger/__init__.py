"""Claim: the household's traffic is detected within three seconds, and idle telemetry is never taken for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.validation import Outcome, Row
from bentpipe.validation.scavenger.detection import Delays, detect_added, false_yields, router_on_idle
from bentpipe.validation.scavenger.router import SHAPES, router_delays, router_false_yields
from bentpipe.validation.scavenger.telemetry import load_days

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TARGET_S = 3.0
"""Longest delay of the 99th percentile, for traffic at the levels [s] (issue 20)."""

IDLE_HOURS = 5.0
"""Least idle telemetry that has to be without a false yield [h] (issue 20)."""

DRAWS = 4000
"""Starts of traffic for each rate."""

IDLE_RATES = ((0.5e6, 0.0), (0.0, 0.2e6), (1e6, 0.0), (5e6, 0.0), (20e6, 1e6))
"""Traffic down and up that is added to idle telemetry [bit/s]; the first two are the usual levels."""

LOADED_RATES = ((6e6, 0.0), (10e6, 0.0), (30e6, 0.0))
"""The same beside a run's own 54 Mbit/s down; the first is a little above the level of a tenth."""

ROUTER_LIMITS: dict[tuple[float, str | None], float] = {
    (0.5e6, None): 3.0,
    (1e6, None): 1.5,
    (5e6, None): 0.75,
    (20e6, "varying every 0.1 s"): 2.0,
    (54e6, "varying every 0.1 s"): 1.0,
}
"""Traffic that a router counts [bit/s] and the run's own → longest delay of the 99th percentile [s]; generated packets,
limits chosen here."""

ROUTER_FALSE = 3
"""Most false yields of the router's detector in 27 idle hours: one in 9 h; chosen here."""

ROUTER_DRAWS, ROUTER_HOURS = 1000, 0.25
"""Starts of traffic for each of them; length of own traffic of each shape [h]."""

SHARES = (0.1, 0.3, 1.0)
"""Owner's shares of own traffic for which false yields are counted."""


def check(data: Path | None, on_progress: Callable[[float], None]) -> Outcome:
    """Check false yields and detection delays on recorded telemetry; two minutes."""
    days = load_days(data) if data is not None else None
    if not days:
        return Outcome("scavenger", skipped="needs dish_1hz_fjordlink_40h (`data`, see the claim's README)")
    rows, notes = [], []
    idle = false_yields(days, is_loaded=False)
    lasting = "; ".join(idle.lasting) or "none"
    ours = f"{idle.count} in {idle.hours:.1f} h; {len(idle.lasting)} on traffic that lasted"
    rows.append(Row("idle: false yields", ours, "0", f"0, in {IDLE_HOURS:g} h or more", _none(idle.count, idle.hours)))
    notes.append(f"idle: yields on traffic above the level for 5 s or more: {lasting}")
    on_progress(0.2)
    rng = np.random.default_rng(20)
    cases = [(False, rate) for rate in IDLE_RATES] + [(True, rate) for rate in LOADED_RATES]
    for number, (is_loaded, rate) in enumerate(cases):
        delays = detect_added(days, rate, DRAWS, rng, is_loaded=is_loaded)
        is_level = not is_loaded and number < 2
        name = f"{'beside 54 Mbit/s' if is_loaded else 'idle'}: {rate_text(rate)}"
        within = bool(delays.p99_s <= TARGET_S) if not is_loaded else None
        limit = f"p99 ≤ {TARGET_S:g} s" if not is_loaded else "reported, no limit"
        rows.append(Row(name + (" (the level)" if is_level else ""), delays_text(delays), "", limit, within))
        on_progress(0.2 + 0.5 * (number + 1) / len(cases))
    slow = detect_added(days, IDLE_RATES[0], DRAWS, rng, is_loaded=False, poll_s=1.0)
    name = f"idle: {rate_text(IDLE_RATES[0])} (the level), one poll a second"
    rows.append(Row(name, delays_text(slow), "", "reported, no limit", None))
    for share in SHARES:
        loaded = false_yields(days, is_loaded=True, own_share=share)
        ours = (
            f"{loaded.count} in {loaded.hours:.2f} h ({loaded.count / loaded.hours:.1f} an hour); {loaded.edges} edges"
        )
        rows.append(Row(f"beside 54 Mbit/s: false yields, own_share {share:g}", ours, "", "reported, no limit", None))
        notes.append(f"own_share {share:g}: at starts and ends of the load {loaded.at_edges} of {loaded.edges}")
    on_progress(0.9)
    for (rate_bps, shape), most_s in ROUTER_LIMITS.items():
        delays = router_delays(rate_bps, ROUTER_DRAWS, rng, shape)
        name = f"router at 10 Hz: {rate_text((rate_bps, 0.0))}" + (f" beside 54 Mbit/s, {shape}" if shape else "")
        rows.append(Row(name, delays_text(delays), "", f"p99 ≤ {most_s:g} s", bool(delays.p99_s <= most_s)))
    idle = router_on_idle(days)
    ours = f"{idle.count} in {idle.hours:.1f} h; {len(idle.lasting)} on traffic that lasted"
    within = idle.count <= ROUTER_FALSE
    rows.append(Row("router's detector on idle telemetry: false yields", ours, "", f"≤ {ROUTER_FALSE}", within))
    alarms = {shape: router_false_yields(shape, ROUTER_HOURS, rng) for shape in SHAPES}
    ours = ", ".join(f"{shape}: {count}" for shape, count in alarms.items())
    name = f"router at 10 Hz, 54 Mbit/s of its own for {ROUTER_HOURS:g} h: false yields"
    rows.append(Row(name, ours, "0", "0", not any(alarms.values())))
    return Outcome("scavenger", rows, notes)


def rate_text(rate: tuple[float, float]) -> str:
    """Return rates down and up in words."""
    parts = [f"{bps / 1e6:g} Mbit/s {way}" for bps, way in zip(rate, ("down", "up"), strict=True) if bps]
    return ", ".join(parts)


def delays_text(delays: Delays) -> str:
    """Return the distribution of delays in words."""
    low, high = delays.p99_between_s
    text = f"p50 {delays.p50_s:.2f} s, p99 {delays.p99_s:.2f} s ({low:.2f} to {high:.2f}), n = {delays.n}"
    return text + (f", {delays.missed} not within {delays.horizon_s:g} s" if delays.missed else "")


def _none(count: int, hours: float) -> bool:
    return count == 0 and hours >= IDLE_HOURS
