"""Recorded telemetry of a terminal: its idle stretches, and those under a steady load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FOLDER = "dish_1hz_fjordlink_40h"

LOAD_BPS = 40e6
"""Running median from which a second is under the campaign's load of 54 Mbit/s [bit/s]."""

BUSY_BPS = 5e6
"""A second above this belongs to one of the campaign's tests [bit/s]."""

TRUE_GAIN = 1.04
"""Gain that the load's counters are given: headers. The detector has to learn it."""

APART_S = 20
"""Idle seconds are farther than this from those [s]."""

FULL_BPS = 54e6
"""The load [bit/s]."""

EDGE = 4
"""Samples around a start or an end of the load."""

MEDIAN_S = 15
"""Length of the running median that stands for the load's own counters, which were not recorded [s]."""


@dataclass(frozen=True)
class Day:
    """Telemetry of one day.

    Attributes:
        name: Its date.
        t_s: Times of the polls [s since 1970], shape (n,).
        down_bps, up_bps: Readings, shape (n,).
        own_down_bps, own_up_bps: The load: running medians where they are above `LOAD_BPS`, else 0; see `_load`.
        own_down_bytes, own_up_bytes: Its counters: these rates added up, less the headers.
        is_idle: Whether no test was near.
    """

    name: str
    t_s: Floats
    down_bps: Floats
    up_bps: Floats
    own_down_bps: Floats
    own_up_bps: Floats
    own_down_bytes: NDArray[np.int64]
    own_up_bytes: NDArray[np.int64]
    is_idle: NDArray[np.bool_]


def make_day(name: str, t_s: Floats, down_bps: Floats, up_bps: Floats) -> Day:
    """Find idle seconds and the load. Readings that are repeated are left out: they are not fresh."""
    fresh = np.ones(len(t_s), bool)
    fresh[1:] = (np.diff(down_bps) != 0) | (np.diff(up_bps) != 0)
    t_s, down_bps, up_bps = t_s[fresh], down_bps[fresh], up_bps[fresh]
    own = [_load(rate) for rate in (down_bps, up_bps)]
    is_busy = ((down_bps > BUSY_BPS) | (up_bps > BUSY_BPS)).astype(float)
    near = np.convolve(is_busy, np.ones(2 * APART_S + 1), "same") > 0.5
    steps_s = np.diff(t_s, prepend=t_s[0]).clip(0, 5)
    counts = [np.cumsum(rate * steps_s / 8 / TRUE_GAIN).astype(np.int64) for rate in own]
    return Day(name, t_s, down_bps, up_bps, own[0], own[1], counts[0], counts[1], ~near)


def _load(rate_bps: Floats) -> Floats:
    """Return the load: the running median inside; where it begins and ends the readings themselves, without doubles."""
    median = pl.Series(rate_bps).rolling_median(MEDIAN_S, center=True, min_samples=1).to_numpy()
    inside = median > LOAD_BPS
    near = np.zeros(len(rate_bps), bool)
    for edge in np.flatnonzero(np.diff(inside.astype(int))):
        near[max(0, edge - EDGE) : edge + EDGE + 1] = True
    return np.where(near, np.minimum(rate_bps, 1.1 * FULL_BPS), np.where(inside, median, 0.0))


def load_days(data: Path) -> list[Day]:
    """Load the days; empty: they are not there."""
    days = []
    for path in sorted((data / FOLDER).glob("*.parquet")):
        table = pl.read_parquet(path)
        t_s = table["time_utc"].dt.epoch("us").to_numpy() / 1e6
        rates = [table[f"{way}_throughput_bps"].to_numpy() for way in ("downlink", "uplink")]
        days.append(make_day(path.stem, t_s, rates[0], rates[1]))
    return days
