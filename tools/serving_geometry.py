"""Does the place of the next serving satellite say how high the next slot's RTT will be?

    python tools/serving_geometry.py PINGS OBSTRUCTION_MAPS ELEMENTS --site LAT,LON

The serving satellite of each slot comes from the maps (`bentpipe serving`), its elevation and range from elements of
the day, the slot's level from pings. Prints correlations, and the error of the next slot's level by least squares, each
slot left out once: from this slot's level alone, and with the next satellite's elevation or range, known before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

import bentpipe as bp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SURE = 0.9
"""Confidence from which on a satellite counts."""

LEAST_PINGS = 60


def main() -> None:
    """Read the arguments, print the figures."""
    parser = argparse.ArgumentParser(description="Gain of the serving satellite's place for the next slot's RTT.")
    for name in ("pings", "maps", "elements"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--site", required=True, metavar="LAT,LON")
    arguments = parser.parse_args()
    slots = table(arguments)
    for name, column in (("elevation", 1), ("range", 2), ("satellites above 25°", 3)):
        low, middle = (np.corrcoef(slots[:, column], slots[:, level])[0, 1] for level in (4, 5))
        print(
            f"{name}: r = {low:+.2f} with the slot's 5th percentile, {middle:+.2f} with its median (n = {len(slots)})"
        )
    after = np.flatnonzero(np.abs(np.diff(slots[:, 0]) - 15) < 1) + 1
    level, last = np.log(slots[after, 5]), np.log(slots[after - 1, 5])
    for name, known in (
        ("this slot's level", last[:, None]),
        ("and the next elevation", np.column_stack([last, slots[after, 1]])),
        ("and both ranges", np.column_stack([last, slots[after, 2], slots[after - 1, 2]])),
    ):
        print(f"next level from {name}: mean error {left_out_error(known, level):.3f} (logarithm, n = {len(after)})")


def table(arguments: argparse.Namespace) -> Floats:
    """Return a row for each slot: start [s], elevation [deg], range [km], satellites in view, two levels [ms]."""
    command = [sys.executable, "-m", "bentpipe", "serving", arguments.maps, "--elements", arguments.elements]
    served = subprocess.run([*command, "--site", arguments.site, "--json"], capture_output=True, text=True, check=False)
    if served.returncode != 0:
        sys.exit(served.stderr)
    pings = bp.read(arguments.pings).to_polars().filter(pl.col("rtt_ms").is_not_null())
    at_s, rtt_ms = pings["unix_ns"].to_numpy() / 1e9, pings["rtt_ms"].to_numpy()
    lat_deg, lon_deg = map(float, arguments.site.split(","))
    rows = []
    for slot in json.loads(served.stdout):
        start_s = datetime.fromisoformat(slot["slot_start"]).timestamp()
        own = rtt_ms[(at_s >= start_s + 0.5) & (at_s < start_s + 14.5)]
        if (slot["confidence"] or 0.0) < SURE or len(own) < LEAST_PINGS:
            continue
        middle = datetime.fromtimestamp(start_s + 7.5, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        sky = bp.sky((lat_deg, lon_deg), middle, elements=arguments.elements, min_elevation=15)
        place = sky.filter(pl.col("norad_id") == slot["norad_id"]).row(0, named=True)
        in_view = sky.filter(pl.col("elevation_deg") > 25).height
        low, level = np.quantile(own, [0.05, 0.5])
        rows.append((start_s, place["elevation_deg"], place["range_km"], in_view, low, level))
    return np.array(rows)


def left_out_error(known: Floats, target: Floats) -> float:
    """Return the mean size of the error of least squares, for each row by the others."""
    design = np.column_stack([np.ones(len(target)), known])
    errors = []
    for row in range(len(target)):
        others = np.arange(len(target)) != row
        weights, *_ = np.linalg.lstsq(design[others], target[others], rcond=None)
        errors.append(abs(target[row] - design[row] @ weights))
    return float(np.mean(errors))


if __name__ == "__main__":
    main()
