"""Capacity of the model by second, against saturation tests: level, spread within a test, and autocorrelation.

Tests are UDP floods of 15 s from a standing vehicle (Osnabrück), at any phase of the slot; a packet-delivery trace
(LeoCC) is cut in the same way. The model is given a site's level, as it is given the offset of its RTTs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import polars as pl

from bentpipe.measurements.runs.imports import read_file
from bentpipe.profiles.access import build_profile
from bentpipe.profiles.path import PathView
from bentpipe.runs.path import RacedPath
from bentpipe.validation.access_model.model import Params, geometry
from bentpipe.validation.access_model.pings import SLOT_S, WINDOW_S, Floats

Way = Literal["up", "down"]
T = TypeVar("T")

NAMES = ("medians of tests [ln]", "within a test [ln, W1]", "autocorrelation 1 s", "autocorrelation 3 s")

#: Duration of a test [s].
TEST_S = 15
#: Position of the vehicle, and the PoP nearest to the server.
PLACE, POP = "52.28,8.02", "50.11,8.68"
#: Tests before this day are fitted, later ones held out [s since 1970]: 1 February 2024.
HELD_OUT_FROM_S = 1_706_745_600
#: Highest speed of a standing vehicle [km/h].
_STANDS_KMH = 1.0
#: Number of compared real tests, evenly spread: the number of pairs grows with its square.
_MOST = 80
#: Hours of the model's tests.
_STARTS = 8

_LEVELS = (np.arange(15) + 0.5) / 15


@dataclass(frozen=True)
class Test:
    """One test: ln of its median [Mbit/s]; quantiles of ln over its median; autocorrelation at 1 and 3 s."""

    log_median: float
    log_over: Floats
    correlation: tuple[float, float]


@dataclass(frozen=True)
class Tests:
    """Tests of one direction of a campaign.

    Attributes:
        fitted, held_out: Tests.
        median_mbps: Median of the fitted tests' medians.
        starts_unix_s: Start times of some held-out tests [s since 1970].
    """

    fitted: list[Test]
    held_out: list[Test]
    median_mbps: float
    starts_unix_s: list[int]


def of_seconds(mbps: Floats) -> Test:
    """Return a test from its seconds; values below a hundredth of the median are raised to that."""
    median = float(np.median(mbps))
    log = np.log(np.maximum(mbps, median / 100) / median)
    centred = log - log.mean()
    variance = max(float((centred**2).mean()), 1e-9)
    correlation = tuple(float((centred[:-lag] * centred[lag:]).mean()) / variance for lag in (1, 3))
    return Test(float(np.log(median)), np.quantile(log, _LEVELS), (correlation[0], correlation[1]))


def distance(a: Test, b: Test) -> Floats:
    """Return the four distances of `NAMES`."""
    return np.array(
        [
            abs(a.log_median - b.log_median),
            np.abs(a.log_over - b.log_over).mean(),
            abs(a.correlation[0] - b.correlation[0]),
            abs(a.correlation[1] - b.correlation[1]),
        ]
    )


def osnabrueck(data: Path, way: Way) -> Tests | None:
    """Load the standing vehicle's tests of one direction; None: they are absent."""
    file = data / "throughput_osnabrueck_road" / "iperf.csv"
    if not file.is_file():
        return None
    speeds = pl.read_csv(file, columns=["timestamp_start", "average_speed"], infer_schema_length=None)
    moving = speeds.with_columns(
        unix_ns=pl.col("timestamp_start").str.to_datetime(time_unit="ns").dt.timestamp("ns"),
        moves=pl.col("average_speed").fill_null(0.0) > _STANDS_KMH,
    )
    rows = read_file(file).measurement.tables["samples"].filter(pl.col("direction") == way)
    rows = rows.join(moving.select("unix_ns", "moves"), on="unix_ns", how="left").sort("unix_ns")
    at_s = rows["unix_ns"].to_numpy() // 10**9
    mbps = rows["goodput_bps"].fill_null(0.0).to_numpy() / 1e6
    moves = rows["moves"].fill_null(value=False).to_numpy()
    first = np.flatnonzero(np.diff(at_s, prepend=-2) != 1)
    sides: tuple[list[Test], list[Test]] = ([], [])
    starts = []
    for a, b in zip(first, np.append(first[1:], at_s.size), strict=True):
        if b - a == TEST_S and not moves[a:b].any() and np.median(mbps[a:b]) > 0:
            held_out = bool(at_s[a] >= HELD_OUT_FROM_S)
            sides[held_out].append(of_seconds(mbps[a:b]))
            if held_out:
                starts.append(int(at_s[a]))
    median = float(np.exp(np.median([test.log_median for test in sides[0]])))
    return Tests(_some(sides[0], _MOST), _some(sides[1], _MOST), median, _some(starts, _STARTS))


def leocc(data: Path) -> list[Test] | None:
    """Load the packet-delivery trace, cut into tests; None: it is absent."""
    file = data / "throughput_leocc_example" / "bw_example.txt"
    if not file.is_file():
        return None
    steps = read_file(file).measurement.tables["links"].sort("t_s")["capacity_bps"].to_numpy() / 1e6
    seconds = steps[: steps.size // 10 * 10].reshape(-1, 10).mean(1)
    return [of_seconds(seconds[k : k + TEST_S]) for k in range(0, seconds.size - TEST_S + 1, TEST_S)]


def model_tests(starts_unix_s: Sequence[int], way: Way, params: Params, count: int, first_seed: int) -> list[Test]:
    """Return tests over Profiles of the model, each with its own seed and phase of the slot."""
    rng = np.random.default_rng(first_seed)
    results = []
    for i in range(count):
        start = round((starts_unix_s[i % len(starts_unix_s)] - 12) / SLOT_S) * int(SLOT_S) + 12
        profile = build_profile("w", *geometry(PLACE, POP, start), params, first_seed + i)
        at_s = rng.uniform(0, WINDOW_S - TEST_S)
        _, bps = RacedPath(PathView(profile), at_s, float(TEST_S)).capacity_bps(way, 1.0)
        results.append(of_seconds(bps / 1e6))
    return results


def at_level(params: Params, way: Way, median_mbps: float, tests: Sequence[Test]) -> Params:
    """Return the parameters with the site's level, which follows from `tests` of the model with `params`."""
    median = float(np.exp(np.median([test.log_median for test in tests])))
    side = params["capacity"][way]
    scale = median_mbps / median
    levels = {key: side[key] * scale for key in ("median_mbps", "least_mbps", "most_mbps")}
    return {**params, "capacity": {**params["capacity"], way: {**side, **levels}}}


def _some(of: Sequence[T], most: int) -> list[T]:
    return [of[k] for k in np.unique(np.linspace(0, len(of) - 1, most).astype(int))]
