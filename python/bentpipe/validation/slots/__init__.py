"""Slot detection in series with and without slots: false alarms, power, period and phase.

README.md beside this file states the claim and its tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bentpipe.analysis.handovers import SIGNIFICANCE, Handovers, analyze_handovers
from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.access_model.pings import replies
from bentpipe.validation.slots.nulls import NULLS, Pings

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Null series of each kind.
SERIES = 500
#: Stretches of each source and length for the power.
STRETCHES = 25
#: Lengths for which the power is measured [slots of 15 s].
LENGTHS = (12, 20, 32, 52, 100, 200)
#: Largest error of the phase [s].
PHASE_ERROR_S = 0.3
#: Published phase of the slot edges, modulo 15 s.
KNOWN_PHASE_S = {"victoria 2": 11.75, "victoria 3": 11.75, "seattle": 12.0}
#: Campaigns too poor for slot detection: a moving, obstructed terminal for 15 minutes (p = 0.4).
TOO_POOR = ("joint",)


def as_table(pings: Pings) -> pl.DataFrame:
    """Return pings as input of `analyze_handovers`."""
    t_s, rtt_ms = pings
    return pl.DataFrame({"unix_ns": np.round(t_s * 1e9).astype(np.int64), "rtt_ms": rtt_ms})


def thinned(pings: Pings, every_s: float) -> Pings:
    """Keep the first reply of each `every_s`."""
    cell = (pings[0] // every_s).astype(np.int64)
    first = np.flatnonzero(np.diff(cell, prepend=cell[0] - 1))
    return pings[0][first], pings[1][first]


def stretch(pings: Pings, length_s: float, rng: np.random.Generator) -> Pings:
    """Cut a random stretch of `length_s` from a series; all of a shorter one."""
    t_s, rtt_ms = pings
    start = t_s[0] + rng.uniform(0, max(0.0, float(t_s[-1] - t_s[0]) - length_s))
    inside = slice(*np.searchsorted(t_s, [start, start + length_s]))
    return t_s[inside], rtt_ms[inside]


def load(data: Path) -> dict[str, Pings] | None:
    """Load the whole campaigns of the access model's claim by name; None if one is absent."""
    victoria = {k: data / "latency_victoria_10ms" / f"bent_pipe_victoria_{k}_latency.csv" for k in (2, 3)}
    seattle = data / "latency_seattle_250ms" / "no-isl-ping-gw-seattle-230911-170535-0.1s-60min.txt"
    joint = data / "joint_victoria_20250529" / "ping-10ms-2025-05-29-23-20-13.txt"
    if not all(path.is_file() for path in (*victoria.values(), seattle, joint)):
        return None
    series = {f"victoria {k}": replies(path) for k, path in victoria.items()}
    return series | {"seattle": replies(seattle), "joint": replies(joint, stamped="sent")}


def sources(whole: Mapping[str, Pings]) -> dict[str, Callable[[np.random.Generator], Pings]]:
    """Return sources of null series: each campaign, and Seattle also shortened and thinned to one reply a second."""
    return {
        "victoria 2": lambda _: whole["victoria 2"],
        "victoria 3": lambda _: whole["victoria 3"],
        "joint": lambda _: whole["joint"],
        "seattle, 15 min": lambda rng: stretch(whole["seattle"], 900, rng),
        "seattle, 1 h": lambda rng: stretch(whole["seattle"], 3600, rng),
        "seattle, 1 h, 1 s": lambda rng: thinned(stretch(whole["seattle"], 3600, rng), 1.0),
    }


def false_alarms(kind: str, whole: Mapping[str, Pings], series: int, on_progress: OnProgress) -> NDArray[np.float64]:
    """Return p-values of null series of a kind, from the sources in turn; 1 where a series is too short."""
    rng = np.random.default_rng(sum(map(ord, kind)))
    makers = list(sources(whole).values())
    p_values = []
    for i in range(series):
        p_values.append(analyze_handovers(as_table(NULLS[kind](makers[i % len(makers)](rng), rng))).p_value)
        on_progress((i + 1) / series)
    return np.array([1.0 if p is None else p for p in p_values])


def power(pings: Pings, slots: int, stretches: int, seed: int) -> tuple[float, float]:
    """Return the shares of stretches of `slots` slots in which the right period is detected, and denied."""
    rng = np.random.default_rng(seed)
    results = [analyze_handovers(as_table(stretch(pings, slots * 15.0, rng))) for _ in range(stretches)]
    denied = [not handovers.found and not handovers.undecided for handovers in results]
    return float(np.mean([_is_right(handovers) for handovers in results])), float(np.mean(denied))


def _is_right(handovers: Handovers) -> bool:
    return handovers.period_s is not None and abs(handovers.period_s - 15.0) < 0.05


def _part(on_progress: OnProgress, done: int, kinds: int, part: float) -> None:
    on_progress(0.8 * (done + part) / kinds)


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Check period and phase of the campaigns, false alarms of null series, and power; about ten minutes."""
    whole = load(data) if data is not None else None
    if whole is None:
        return Outcome("slots", skipped="needs the ping campaigns (`data`, see the claim's README)")
    rows, notes = [], []
    for name, pings in whole.items():
        handovers = analyze_handovers(as_table(pings))
        best = handovers.windows.sort("p_value").row(0, named=True)
        if name in TOO_POOR:
            clock = f"{best['period_s']:g} s, {best['phase_s']:.2f} s, p = {best['p_value']:.2g}"
            notes.append(f"{name}: {handovers.reason}; the best is {clock}")
            continue
        expected = KNOWN_PHASE_S[name]
        period, phase = handovers.period_s or np.nan, handovers.phase_s or np.nan
        error = abs((phase - expected + 7.5) % 15.0 - 7.5)
        ours = f"{period:g} s, {phase:.2f} s (p = {handovers.p_value:.2g})"
        within = period == 15.0 and error <= PHASE_ERROR_S
        rows.append(Row(f"{name}: period, phase", ours, f"15 s, {expected:g} s", f"0 s, {PHASE_ERROR_S} s", within))
    for k, kind in enumerate(NULLS):
        p = false_alarms(kind, whole, SERIES, partial(_part, on_progress, k, len(NULLS)))
        alarms = int((p <= SIGNIFICANCE).sum())
        ours = f"{alarms} of {SERIES} ({100 * alarms / SERIES:.1f} %)"
        rows.append(Row(f"false alarms: {kind}", ours, f"p ≤ {SIGNIFICANCE:g}", "≤ 1 %", alarms <= 0.01 * SERIES))
    cases = {f"victoria {k} (13 ms)": whole[f"victoria {k}"] for k in (2, 3)}
    cases |= {"seattle (150 ms)": whole["seattle"], "joint": whole["joint"]}
    cases |= {f"seattle, every {every:g} s": thinned(whole["seattle"], every) for every in (0.5, 1.0, 2.0)}
    for k, (name, pings) in enumerate(cases.items()):
        span = (pings[0][-1] - pings[0][0]) / 15.0
        shares = {n: power(pings, n, STRETCHES, n) for n in LENGTHS if n <= span}
        listed = ", ".join(f"{n}: {right:.2f}" for n, (right, _) in shares.items())
        denied = max(denied for _, denied in shares.values())
        notes.append(f"power, {name}, by slots: {listed}; denied: {denied:.2f} at most")
        on_progress(0.8 + 0.2 * (k + 1) / len(cases))
    return Outcome("slots", rows, notes)
