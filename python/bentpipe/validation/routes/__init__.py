"""Compare shortest paths over +Grid links with a recomputation that shares only the conventions with ours.

python-sgp4 reads the same two-line elements, NumPy rotates and measures, SciPy's Dijkstra finds the paths.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from bentpipe.orbits import elements, routes
from bentpipe.scenarios.shells import load_constellation
from bentpipe.scenarios.sites import Place
from bentpipe.times import parse_utc
from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.independent import LIGHT_KM_S, Floats, Satellites, Station
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
        self._satellites = Satellites(lines)
        index = np.arange(planes * per_plane)
        plane, slot = np.divmod(index, per_plane)
        fore, east = plane * per_plane + (slot + 1) % per_plane, (plane + 1) % planes * per_plane + slot
        self._ends = np.concatenate([index, index]), np.concatenate([fore, east])
        self._stations = [Station(*end) for ends in PAIRS.values() for end in ends]

    def rtt_ms(self, start_unix_ns: int, on_progress: OnProgress) -> Floats:
        """Return the RTT of each pair, shape (steps, pairs); infinite: no path."""
        out = np.empty((DURATION_S, len(PAIRS)))
        for first in range(0, DURATION_S, _PORTION):
            steps = np.arange(first, min(first + _PORTION, DURATION_S))
            positions = self._satellites.ecef_km(start_unix_ns + steps * 10**9)
            for step in range(steps.size):
                out[first + step] = self._step(positions[:, step])
            on_progress((first + steps.size) / DURATION_S)
        return out

    def _step(self, positions: Floats) -> Floats:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        a, b = self._ends
        link = np.linalg.norm(positions[a] - positions[b], axis=1)
        looks = [station.look(positions) for station in self._stations]
        elevation, distance = (np.stack(each) for each in zip(*looks, strict=True))
        place, satellite = np.nonzero(elevation >= MIN_ELEVATION_DEG)
        reach = distance[place, satellite]
        # Even nodes send and odd nodes receive, so a place cannot relay.
        n = len(positions)
        sends = place % 2 == 0
        rows = np.concatenate([a, b, n + place[sends], satellite[~sends]])
        columns = np.concatenate([b, a, satellite[sends], n + place[~sends]])
        lengths = np.concatenate([link, link, reach[sends], reach[~sends]])
        size = n + len(self._stations)
        km = dijkstra(csr_array((lengths, (rows, columns)), shape=(size, size)), indices=np.arange(n, size, 2))
        pairs = np.arange(len(PAIRS))
        result: Floats = 2.0 * km[pairs, n + 2 * pairs + 1] / LIGHT_KM_S * 1e3
        return result
