"""Mean RTT of slots that a dish reports, against the model's: levels of slots over hours and days.

A dish's `pop_ping_latency_ms` is the running mean of its pings over 15 s, so the sample one second after a slot's end
is the mean of that slot. FjordLink's days contain 40 hours, from 9 to 22 h solar time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from bentpipe.errors import UserError, shown
from bentpipe.profiles.access import build_profile
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.pings import ping
from bentpipe.validation.access_model.losses import DISH_PLACE, DISH_POP, EDGE_S
from bentpipe.validation.access_model.model import Params
from bentpipe.validation.access_model.pings import SLOT_S, Floats

NAMES = ("slot means [ms, W1]", "steps of slot means [|ln|]")

FITTED = ("2024-12-12", "2025-01-30")
HELD_OUT = ("2025-01-09", "2025-02-13")
#: Slots of a block: ten minutes.
SLOTS = 40
#: Most blocks of each part whose hours the model uses: selecting satellites for one takes seconds.
STARTS = 12
#: Time from a slot's end to the sample with its mean [s].
REPORTED_AFTER_S = 1.0
#: Rate of the model's pings [1/s]: enough for the mean of a slot.
_PINGS_PER_S = 5

_LEVELS = (np.arange(SLOTS) + 0.5) / SLOTS


@dataclass(frozen=True)
class Block:
    """Mean RTT of `SLOTS` successive slots [ms], and the start of the first [s since 1970]."""

    start_unix_s: int
    means_ms: Floats


@dataclass(frozen=True)
class Days:
    """Blocks of the fitted and the held-out days."""

    fitted: list[Block]
    held_out: list[Block]


def load(data: Path) -> Days | None:
    """Load FjordLink's days below `data`; None: one is absent."""
    folder = data / "dish_1hz_fjordlink_40h"
    parts = []
    for days in (FITTED, HELD_OUT):
        files = [folder / f"{day}.parquet" for day in days]
        if not all(file.is_file() for file in files):
            return None
        parts.append([block for file in files for block in _read(file)])
    return Days(parts[0], parts[1])


def _read(file: Path) -> list[Block]:
    try:
        table = pl.read_parquet(file, columns=["time_utc", "pop_ping_latency_ms"]).drop_nulls().sort("time_utc")
        at_s = table["time_utc"].dt.epoch("us").to_numpy() / 1e6
        latency_ms = table["pop_ping_latency_ms"].cast(pl.Float64).to_numpy()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UserError(f"{file}: {shown(str(error))}; expected columns time_utc and pop_ping_latency_ms") from error
    return blocks(at_s, latency_ms)


def blocks(at_s: Floats, latency_ms: Floats) -> list[Block]:
    """Return blocks without a missing slot from samples of a running mean, in order of time [s since 1970]."""
    means: list[Block] = []
    if not at_s.size:
        return means
    edge = np.ceil((at_s[0] - EDGE_S) / SLOT_S) * SLOT_S + EDGE_S
    while edge + SLOTS * SLOT_S + REPORTED_AFTER_S <= at_s[-1]:
        wanted = edge + SLOT_S * np.arange(1, SLOTS + 1) + REPORTED_AFTER_S
        last = np.searchsorted(at_s, wanted, side="right") - 1
        if (wanted - at_s[last] < 1.5).all() and (latency_ms[last] > 0).all():
            means.append(Block(round(edge), latency_ms[last]))
        edge += SLOTS * SLOT_S
    return means


def model_blocks(real: list[Block], params: Params, count: int, first_seed: int) -> list[Block]:
    """Return `count` blocks of the model at the hours of at most `STARTS` real ones, each with its own Profile."""
    starts = [real[i].start_unix_s for i in np.unique(np.linspace(0, len(real) - 1, STARTS).astype(int))]
    plans = [_plan(start) for start in starts]
    t_s = np.arange(SLOTS * SLOT_S * _PINGS_PER_S) / _PINGS_PER_S
    means = []
    for i in range(count):
        profile = build_profile("block", *plans[i % len(plans)], params, first_seed + i)
        rtt_ms = ping(profile, t_s, seed=first_seed + i).reshape(SLOTS, -1)
        means.append(Block(starts[i % len(starts)], np.nanmean(rtt_ms, axis=1)))
    return means


def distance(a: Block, b: Block) -> Floats:
    """Return the two distances of `NAMES`."""
    quantiles = [np.quantile(block.means_ms, _LEVELS) for block in (a, b)]
    steps = [np.abs(np.diff(block.means_ms)).mean() for block in (a, b)]
    return np.array([np.abs(quantiles[0] - quantiles[1]).mean(), abs(np.log(steps[0] / steps[1]))])


def _plan(start_unix_s: int) -> tuple[str, str]:
    """Serving schedule and ground legs (JSON) over a block."""
    made = make_profile(DISH_PLACE, DISH_POP, start_unix_ns=start_unix_s * 10**9, duration_s=SLOTS * SLOT_S, seed=0)
    recipe = json.loads(made.metadata_json())["provenance"]["recipe"]
    return json.dumps(recipe["schedule"]), json.dumps(recipe["ground"])
