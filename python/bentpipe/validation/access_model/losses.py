"""Loss episodes of the model against measured ones: intervals, durations, and phases of their starts in the slot.

Two instruments, each compared with the same instrument over Profiles of the model: silences of a ping that logged only
replies (Victoria), and seconds in which a terminal's own pings had losses (FjordLink, 1 Hz).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from bentpipe.analysis.loss import loss_episodes
from bentpipe.measurements.runs.imports import read_file
from bentpipe.profiles.access import build_profile, loss_process
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.pings import ping
from bentpipe.validation.access_model.model import Params, geometry
from bentpipe.validation.access_model.pings import SLOT_S, WINDOW_S, Floats, Site, Window

NAMES = ("episodes a second [ln]", "gaps [ln, W1]", "lengths [ln, W1]", "slot phase [s, W1]")

#: Rate at which a terminal pings its PoP [1/s]: a second with one loss shows 0.0625 to 0.067.
DISH_PINGS_PER_S = 15
#: Delay of a loss in its telemetry [s]: the most frequent time after a slot edge in the fitted hours.
DISH_LAG_S = 3.0
#: Duration of a block of its hours [s].
DISH_BLOCK_S = 1200
#: Rate of episodes at each instrument's site over that of the loss environment `idle` (FjordLink's); fitted on windows.
LEVELS = {"victoria": 18.5, "fjordlink": 1.0}
#: Its position and its PoP.
DISH_PLACE, DISH_POP = "54.33,10.15", "50.11,8.68"
#: Number of fitted hours; the later ones are held out.
DISH_FITTED = 3
#: Edges of slots, modulo `SLOT_S` [s of UTC].
EDGE_S = 12.0

_LEVELS = (np.arange(25) + 0.5) / 25


@dataclass(frozen=True)
class Episodes:
    """Loss episodes in a stretch of time.

    Attributes:
        per_s: Episodes per second, after adding half an episode.
        gaps: Quantiles of ln of the time between starts [s]; NaN: fewer than three.
        lengths: Quantiles of ln of their durations [s]; NaN: none.
        phase: Cumulative share of their starts by second of the slot; NaN: none.
    """

    per_s: float
    gaps: Floats
    lengths: Floats
    phase: Floats


def episodes(starts_s: Floats, lengths_s: Floats, span_s: float) -> Episodes:
    """Return episodes from starts [s after an edge] and durations [s] within a span."""
    gaps = np.diff(starts_s)
    seconds = np.bincount((starts_s % SLOT_S).astype(int), minlength=int(SLOT_S))
    none = np.full(_LEVELS.size, np.nan)
    return Episodes(
        (starts_s.size + 0.5) / span_s,
        np.quantile(np.log(gaps), _LEVELS) if gaps.size >= 2 else none,
        np.quantile(np.log(lengths_s), _LEVELS) if starts_s.size else none,
        np.cumsum(seconds) / starts_s.size if starts_s.size else np.full(int(SLOT_S), np.nan),
    )


def distance(a: Episodes, b: Episodes) -> Floats:
    """Return the four distances of `NAMES`."""
    around = a.phase - b.phase
    return np.array(
        [
            abs(np.log(a.per_s / b.per_s)),
            np.abs(a.gaps - b.gaps).mean(),
            np.abs(a.lengths - b.lengths).mean(),
            np.abs(around - np.median(around)).mean() * SLOT_S,  # on a circle
        ]
    )


def at_level(params: Params, where: str) -> Params:
    """Return the parameters with the loss environment `idle` at the level of a site of `LEVELS`."""
    loss = loss_process("idle")
    sides = {way: {"episodes_per_s": loss[way]["episodes_per_s"] * LEVELS[where]} for way in ("up", "down")}
    return {**params, "loss": {**loss, **sides}}


def of_silences(t_s: Floats) -> Episodes:
    """Return the episodes of a window's answered probes: silences between their times."""
    table = pl.DataFrame({"unix_ns": np.round(t_s * 1e9).astype(np.int64), "rtt_ms": np.ones(t_s.size)})
    silent = loss_episodes(table).silences
    return episodes(silent["start_unix_ns"].to_numpy() / 1e9, silent["duration_s"].to_numpy(), WINDOW_S)


def model_silences(
    site: Site, windows: Sequence[Window], params: Params, count: int, first_seed: int
) -> list[Episodes]:
    """Return the same for pings over Profiles of the model, sent as the real ones, and also during their silences."""
    sessions = []
    for i in range(count):
        window = windows[i % len(windows)]
        step_s = float(np.median(np.diff(window.t_s)))
        silent = np.flatnonzero(np.diff(window.t_s) > 2 * step_s)
        more = [np.arange(window.t_s[k] + step_s, window.t_s[k + 1], step_s) for k in silent]
        t_s = np.sort(np.concatenate([window.t_s, *more]))
        profile = build_profile("w", *geometry(site.terminal, site.server, window.start_unix_s), params, first_seed + i)
        sessions.append(of_silences(t_s[~np.isnan(ping(profile, t_s, seed=first_seed + i))]))
    return sessions


@dataclass(frozen=True)
class DishHours:
    """Blocks of a terminal's hours, fitted and held out, and start times of some held-out blocks [s since 1970]."""

    fitted: list[Episodes]
    held_out: list[Episodes]
    starts_unix_s: list[int]


def dish_hours(data: Path) -> DishHours | None:
    """Load FjordLink's hours, in blocks; None: they are absent."""
    files = sorted((data / "dish_history_fjordlink_1hz").glob("*-starlink.parquet.gzip"))
    if len(files) <= DISH_FITTED:
        return None
    blocks: list[list[Episodes]] = []
    starts = []
    for number, file in enumerate(files):
        table = read_file(file).measurement.tables["dish_samples"].drop_nulls("pop_ping_drop_rate")
        at_s = table["t_unix_ns"].to_numpy() / 1e9 - DISH_LAG_S
        lost = table["pop_ping_drop_rate"].to_numpy() > 0
        edge = np.ceil((at_s[0] - EDGE_S) / SLOT_S) * SLOT_S + EDGE_S
        count = int((at_s[-1] - edge) // DISH_BLOCK_S)
        begins = [edge + k * DISH_BLOCK_S for k in range(count)]
        blocks.append([of_seconds(at_s[(at_s >= b) & (at_s < b + DISH_BLOCK_S) & lost] - b) for b in begins])
        if number >= DISH_FITTED:
            starts += [int(begin) for begin in begins[:1]]
    flat = [[one for hour in part for one in hour] for part in (blocks[:DISH_FITTED], blocks[DISH_FITTED:])]
    return DishHours(flat[0], flat[1], starts)


def of_seconds(lossy_s: Floats) -> Episodes:
    """Return the episodes of a block's lossy seconds [s after its start]: consecutive ones are one episode."""
    first = np.flatnonzero(np.diff(lossy_s, prepend=-np.inf) > 1.5)
    last = np.append(first[1:] - 1, lossy_s.size - 1)[: first.size]
    return episodes(lossy_s[first], lossy_s[last] - lossy_s[first] + 1.0, DISH_BLOCK_S)


def model_dish(hours: DishHours, params: Params, count: int, first_seed: int) -> list[Episodes]:
    """Return the same for a terminal's pings over Profiles of the model."""
    sent_s = np.arange(DISH_BLOCK_S * DISH_PINGS_PER_S) / DISH_PINGS_PER_S
    sessions = []
    plans = [_plan(start) for start in hours.starts_unix_s]
    for i in range(count):
        profile = build_profile("w", *plans[i % len(plans)], params, first_seed + i)
        lossy = np.unique(np.flatnonzero(np.isnan(ping(profile, sent_s, seed=first_seed + i))) // DISH_PINGS_PER_S)
        # The telemetry shows a lost ping in two samples: most of its runs have two.
        shown = np.union1d(lossy, lossy + 1)
        sessions.append(of_seconds(shown[shown < DISH_BLOCK_S].astype(float)))
    return sessions


def _plan(start_unix_s: int) -> tuple[str, str]:
    made = make_profile(DISH_PLACE, DISH_POP, start_unix_ns=start_unix_s * 10**9, duration_s=DISH_BLOCK_S, seed=0)
    recipe = json.loads(made.metadata_json())["provenance"]["recipe"]
    return json.dumps(recipe["schedule"]), json.dumps(recipe["ground"])
