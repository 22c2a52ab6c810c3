"""Compare shortest paths over +Grid links with a recomputation that shares only the conventions with ours.

python-sgp4 reads the same two-line elements, NumPy rotates and measures, SciPy's Dijkstra finds the paths.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bentpipe.orbits import elements, routes
from bentpipe.scenarios.shells import load_constellation
from bentpipe.scenarios.sites import Place
from bentpipe.times import parse_utc
from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.tle import two_line_elements

START = "2026-05-10T09:00:00Z"
DURATION_S = 6000
MIN_ELEVATION_DEG = 25.0
TOLERANCE_MS = 1e-3
#: Pairs: at the shell's northern edge, nearly antipodal, across 180° of longitude, close together, along a meridian.
PAIRS = {
    "Saint Petersburg – Rio de Janeiro": ((59.93, 30.36), (-22.90, -43.17)),
    "Melbourne – London": ((-37.81, 144.96), (51.51, -0.13)),
    "Suva – Honolulu": ((-18.14, 178.44), (21.31, -157.86)),
    "Madrid – Hamilton (antipodes)": ((40.42, -3.70), (-37.79, 175.28)),
    "Brussels – Paris": ((50.85, 4.35), (48.86, 2.35)),
    "Stockholm – Cape Town": ((59.33, 18.07), (-33.92, 18.42)),
}

Floats = NDArray[np.float64]

#: Time steps that the recomputation handles at once.
_PORTION = 200


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Compare every pair at every second; needs no data."""
    del data
    start = parse_utc(START)
    shell = load_constellation("starlink-s1").shells[0]
    lines = two_line_elements(elements.load_satellites(None, "starlink-s1", start))
    reference = _Recomputation(lines, shell.planes, shell.satellites_per_plane)
    expected = reference.rtt_ms(start, lambda part: on_progress(0.8 * part))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shell.tle"
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        for i, (name, ends) in enumerate(PAIRS.items()):
            computed = routes.route(
                *(Place(name, lat, lon) for lat, lon in ends),
                start_unix_ns=start,
                duration_s=DURATION_S,
                elements=path,
                isl=f"grid:{shell.planes}x{shell.satellites_per_plane}",
                min_elevation_deg=MIN_ELEVATION_DEG,
            )
            rows.append(_row(name, computed.rtt_ms, expected[:, i]))
            on_progress(0.8 + 0.2 * (i + 1) / len(PAIRS))
    grid = f"{shell.planes} × {shell.satellites_per_plane}"
    return Outcome("routes", rows, [f"{DURATION_S} steps of 1 s from {START}, grid of {grid} satellites"])


def _row(name: str, computed: Floats, expected: Floats) -> Row:
    reachable = np.isfinite(expected)
    differences = np.abs(computed - expected)[reachable]
    worst_ms = float(differences.max(initial=0.0))
    same = bool((np.isnan(computed) == ~reachable).all())
    shown = "the same steps unreachable" if same else "OTHER steps unreachable"
    return Row(
        f"{name}: RTT [ms]",
        f"median {np.median(computed[reachable]):.6f}, {int((~reachable).sum())} steps without a way",
        f"at most {worst_ms * 1e6:.4f} ns off, {shown}",
        "1 µs",
        same and worst_ms <= TOLERANCE_MS,
    )


class _Recomputation:
    """The network of a plane-major grid, from independent libraries."""

    def __init__(self, lines: list[str], planes: int, per_plane: int) -> None:
        from sgp4.api import Satrec, SatrecArray

        self._satellites = SatrecArray([Satrec.twoline2rv(a, b) for a, b in zip(lines[::2], lines[1::2], strict=True)])
        index = np.arange(planes * per_plane)
        plane, slot = np.divmod(index, per_plane)
        fore, east = plane * per_plane + (slot + 1) % per_plane, (plane + 1) % planes * per_plane + slot
        self._ends = np.concatenate([index, index]), np.concatenate([fore, east])
        places = np.radians([end for ends in PAIRS.values() for end in ends])
        lat, lon = places.T
        flattening = 1 / 298.257223563
        e2 = flattening * (2 - flattening)
        self._up = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
        normal = 6378.137 / np.sqrt(1 - e2 * np.sin(lat) ** 2)
        self._ground = self._up * normal[:, None] * [1.0, 1.0, 1.0 - e2]

    def rtt_ms(self, start_unix_ns: int, on_progress: OnProgress) -> Floats:
        """Return the RTT of each pair, shape (steps, pairs); infinite: no path."""
        out = np.empty((DURATION_S, len(PAIRS)))
        days, nanos = divmod(start_unix_ns, 86_400 * 10**9)
        for first in range(0, DURATION_S, _PORTION):
            seconds = nanos / 1e9 + np.arange(first, min(first + _PORTION, DURATION_S))
            jd, fraction = np.full(seconds.shape, days + 2440587.5), seconds / 86_400
            error, teme, _ = self._satellites.sgp4(jd, fraction)
            if error.any():
                raise RuntimeError(f"python-sgp4 reports errors {set(error.ravel().tolist())}")
            # IAU 1982 (Aoki et al.): seconds of GMST from centuries of UT1.
            t = (jd - 2451545.0 + fraction) / 36_525
            gmst_s = 67310.54841 + (876_600 * 3600 + 8640184.812866) * t + 0.093104 * t**2 - 6.2e-6 * t**3
            theta = np.radians(gmst_s % 86_400 / 240)
            c, s = np.cos(theta), np.sin(theta)
            x, y = c * teme[..., 0] + s * teme[..., 1], c * teme[..., 1] - s * teme[..., 0]
            positions = np.stack([x, y, teme[..., 2]], axis=-1)
            for step in range(seconds.size):
                out[first + step] = self._step(positions[:, step])
            on_progress((first + seconds.size) / DURATION_S)
        return out

    def _step(self, positions: Floats) -> Floats:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        a, b = self._ends
        link = np.linalg.norm(positions[a] - positions[b], axis=1)
        away = positions[None] - self._ground[:, None]
        distance = np.linalg.norm(away, axis=2)
        elevation = np.degrees(np.arcsin(np.einsum("gsk,gk->gs", away, self._up) / distance))
        place, satellite = np.nonzero(elevation >= MIN_ELEVATION_DEG)
        reach = distance[place, satellite]
        # Even nodes send and odd nodes receive, so a place cannot relay.
        n = len(positions)
        sends = place % 2 == 0
        rows = np.concatenate([a, b, n + place[sends], satellite[~sends]])
        columns = np.concatenate([b, a, satellite[sends], n + place[~sends]])
        lengths = np.concatenate([link, link, reach[sends], reach[~sends]])
        size = n + len(self._ground)
        km = dijkstra(csr_array((lengths, (rows, columns)), shape=(size, size)), indices=np.arange(n, size, 2))
        pairs = np.arange(len(PAIRS))
        result: Floats = 2.0 * km[pairs, n + 2 * pairs + 1] / 299_792.458 * 1e3
        return result
