"""Compare azimuth, elevation and range with Skyfield, which applies the full theory: UT1, nutation, WGS84."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bentpipe.orbits import elements
from bentpipe.scenarios.sites import Place
from bentpipe.times import parse_utc
from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.tle import two_line_elements

CASES = 1000
ANGLE_TOLERANCE_DEG = 0.02
RANGE_TOLERANCE_M = 100.0
START = "2026-05-10T00:00:00Z"
SEED = 1


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Compare random (satellite, place, time) cases; with `data`, also the elements in its ``tle_starlink``."""
    shells: list[str] = []
    for name in ("starlink-gen1", "oneweb", "kuiper", "geo"):
        # Numbers are unique in the whole file: of two satellites with one number only the newest would be read.
        shells += two_line_elements(elements.load_satellites(None, name, parse_utc(START)), 1 + len(shells) // 2)
    outcome = Outcome("look-angles")
    files = sorted((data / "tle_starlink").glob("*.tle.gz")) if data is not None else []
    sources = [("built-in shells", shells)]
    for path in files:
        text = gzip.decompress(path.read_bytes()).decode("ascii")
        sources.append((path.name, [line for line in text.splitlines() if line.startswith(("1 ", "2 "))]))
    for i, (name, lines) in enumerate(sources):
        errors = _errors(lines, np.random.default_rng(SEED))
        on_progress((i + 1) / len(sources))
        outcome.rows.extend(_rows(name, errors))
    if not files:
        outcome.notes.append("with `data` the Starlink elements in its folder tle_starlink are compared as well")
    outcome.notes.append(
        f"{CASES} cases each, seed {SEED}; azimuth differences count on the sky (times cos of the elevation)"
    )
    return outcome


def _errors(lines: list[str], draw: np.random.Generator) -> NDArray[np.float64]:
    """Azimuth and elevation differences on the sky [deg] and range differences [m], one row a case."""
    from skyfield.api import EarthSatellite, load, wgs84

    timescale: Any = load.timescale(builtin=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "elements.tle"
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        satellites = elements.read_elements(path)
    epochs = satellites.elements()["epoch_unix_ns"]
    errors = np.empty((CASES, 3))
    for case in range(CASES):
        index = int(draw.integers(len(satellites)))
        place = Place("random", float(np.degrees(np.arcsin(draw.uniform(-1, 1)))), float(draw.uniform(-180, 180)), 0.0)
        at = int(epochs[index]) + int(draw.integers(86_400 * 10**6)) * 1000
        reference = EarthSatellite(lines[2 * index], lines[2 * index + 1], ts=timescale)
        site = wgs84.latlon(place.lat_deg, place.lon_deg, elevation_m=place.alt_m)
        jd, fraction = divmod(at, 86_400 * 10**9)
        moment = timescale.utc(1970, 1, 1 + jd, 0, 0, fraction / 1e9)
        altitude, azimuth, distance = (reference - site).at(moment).altaz()
        out = [np.empty((1, 1)) for _ in range(3)]
        satellites.look_angles((place.lat_deg, place.lon_deg, place.alt_m), np.array([at]), index, *out)
        around = (out[0][0, 0] - azimuth.degrees + 180.0) % 360.0 - 180.0
        errors[case] = (
            around * np.cos(altitude.radians),
            out[1][0, 0] - altitude.degrees,
            (out[2][0, 0] - distance.km) * 1e3,
        )
    return np.abs(errors)


def _rows(name: str, errors: NDArray[np.float64]) -> list[Row]:
    rows = []
    tolerances = (ANGLE_TOLERANCE_DEG, ANGLE_TOLERANCE_DEG, RANGE_TOLERANCE_M)
    for angle, unit, column, tolerance in zip(
        ("azimuth", "elevation", "range"), ("deg", "deg", "m"), errors.T, tolerances, strict=True
    ):
        median, worst = float(np.median(column)), float(column.max())
        rows.append(
            Row(
                f"{name}: {angle} [{unit}]",
                f"median {median:.3g}, worst {worst:.3g} off",
                "Skyfield",
                f"{tolerance:g}",
                worst <= tolerance,
            )
        )
    return rows
