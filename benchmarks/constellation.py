"""State of a constellation at one time: 1584 satellites, 100 stations, all station pairs, on one core.

The peer computes the same distances with python-sgp4's SatrecArray, NumPy and SciPy's Dijkstra, all vectorised:
positions, visibility above 25 degrees, link lengths, shortest paths from every station.
"""

from __future__ import annotations

import os
import time

import numpy as np

from bentpipe import _native
from bentpipe.orbits import elements, routes
from bentpipe.scenarios.shells import load_constellation
from bentpipe.scenarios.sites import Place
from bentpipe.times import parse_utc

STATIONS = 100
OUR_STEPS = 128
PEER_STEPS = 5
ROUNDS = 3
START = "2026-05-10T09:00:00Z"
MIN_ELEVATION_DEG = 25.0
LIGHT_KM_S = 299792.458


def stations() -> list[Place]:
    """Draw a hundred places at inhabited latitudes from a fixed seed."""
    draw = np.random.default_rng(1)
    return [Place(f"s{i}", float(draw.uniform(-55, 55)), float(draw.uniform(-180, 180))) for i in range(STATIONS)]


class Peer:
    """The same step with NumPy, SciPy and python-sgp4."""

    def __init__(self, satellites: _native.Satellites, places: list[Place], planes: int, per_plane: int) -> None:
        from sgp4.api import WGS72, Satrec, SatrecArray

        columns = satellites.elements()
        records = []
        for i in range(len(satellites)):
            record = Satrec()
            days = columns["epoch_unix_ns"][i] / 86400e9 + 7306.0  # from 1949-12-31, as sgp4init counts
            perigee, inclination, anomaly, node = (
                np.radians(columns[k][i])
                for k in ("arg_perigee_deg", "inclination_deg", "mean_anomaly_deg", "raan_deg")
            )
            motion = columns["mean_motion_rev_day"][i] * 2 * np.pi / 1440
            orbit_of = (columns["eccentricity"][i], perigee, inclination, anomaly, motion, node)
            record.sgp4init(WGS72, "i", i + 1, days, 0.0, 0.0, 0.0, *orbit_of)
            records.append(record)
        self.array = SatrecArray(records)
        lat, lon = np.radians([p.lat_deg for p in places]), np.radians([p.lon_deg for p in places])
        e2 = 0.0066943799901413165
        normal = 6378.137 / np.sqrt(1 - e2 * np.sin(lat) ** 2)
        self.up = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)
        self.ground = self.up * normal[:, None] * [1, 1, 1 - e2]
        index = np.arange(planes * per_plane)
        plane, slot = index // per_plane, index % per_plane
        fore = plane * per_plane + (slot + 1) % per_plane
        east = (plane + 1) % planes * per_plane + slot
        self.a, self.b = np.concatenate([index, index]), np.concatenate([fore, east])

    def step(self, at_unix_ns: int) -> np.ndarray:
        """Return the RTTs of all pairs [ms]."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        days = at_unix_ns // (86400 * 10**9)
        jd, fraction = days + 2440587.5, (at_unix_ns - days * 86400 * 10**9) / 86400e9
        _, r, _ = self.array.sgp4(np.array([jd]), np.array([fraction]))
        t = (jd - 2451545.0 + fraction) / 36525
        gmst_s = 67310.54841 + t * (876600 * 3600 + 8640184.812866 + t * (0.093104 - 6.2e-6 * t))
        theta = gmst_s % 86400 * (2 * np.pi / 86400)
        c, s = np.cos(theta), np.sin(theta)
        position = r[:, 0, :] @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        n = len(position)
        link = np.linalg.norm(position[self.a] - position[self.b], axis=1)
        away = position[None] - self.ground[:, None]
        distance = np.linalg.norm(away, axis=2)
        seen = np.einsum("gsk,gk->gs", away, self.up) >= np.sin(np.radians(MIN_ELEVATION_DEG)) * distance
        station, satellite = np.nonzero(seen)
        reach = distance[seen]
        # Stations appear twice, as sources with links up and as targets with links down: they do not relay.
        count = n + 2 * STATIONS
        rows = np.concatenate([self.a, self.b, n + station, satellite])
        columns = np.concatenate([self.b, self.a, satellite, n + STATIONS + station])
        graph = csr_array((np.concatenate([link, link, reach, reach]), (rows, columns)), shape=(count, count))
        km = dijkstra(graph, indices=np.arange(n, n + STATIONS))[:, n + STATIONS :]
        rtt_ms = 2 * km / LIGHT_KM_S * 1e3
        np.fill_diagonal(rtt_ms, 0)
        return rtt_ms


def main() -> dict[str, float]:
    try:
        import scipy
        import sgp4.api
    except ImportError as error:
        print(f"constellation_vs_numpy: skipped, {error.name} is not installed (pip install 'bentpipe[validation]')")
        return {}
    del scipy
    if not sgp4.api.accelerated:
        print("constellation_vs_numpy: skipped, python-sgp4 was installed without its compiled half")
        return {}
    if hasattr(os, "sched_setaffinity"):
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
    try:
        return _compare()
    finally:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, cores)


def _compare() -> dict[str, float]:
    shell = load_constellation("starlink-s1").shells[0]
    start = parse_utc(START)
    satellites = elements.load_satellites(None, "starlink-s1", start)
    places = stations()
    peer = Peer(satellites, places, shell.planes, shell.satellites_per_plane)
    times = start + np.arange(OUR_STEPS, dtype=np.int64) * 10**9
    mine, theirs = [], []
    for i in range(ROUNDS):
        begin = time.process_time()
        ours = routes.constellation(places, times, satellites, min_elevation_deg=MIN_ELEVATION_DEG, threads=1)
        mine.append((time.process_time() - begin) / OUR_STEPS)
        begin = time.process_time()
        same = [peer.step(int(t)) for t in times[:PEER_STEPS]]
        theirs.append((time.process_time() - begin) / PEER_STEPS)
        print(f"  round {i + 1}/{ROUNDS}: ours {mine[-1] * 1e3:.2f} ms, NumPy + SciPy {theirs[-1] * 1e3:.0f} ms a step")
    worst_ms = max(np.nanmax(np.abs(ours.rtt_ms[i] - same[i])[np.isfinite(same[i])]) for i in range(PEER_STEPS))
    if worst_ms > 1e-3 or any((np.isfinite(ours.rtt_ms[i]) != np.isfinite(same[i])).any() for i in range(PEER_STEPS)):
        raise SystemExit(f"constellation: ours and the peer's RTTs differ by {worst_ms} ms")
    ratio = min(theirs) / min(mine)
    print(
        f"constellation_vs_numpy: {ratio:.0f} (best of {ROUNDS}, CPU time on one core: "
        f"ours {min(mine) * 1e3:.2f} ms a step, NumPy + SciPy {min(theirs) * 1e3:.0f} ms; "
        f"RTTs differ by at most {worst_ms * 1e6:.3f} ns)"
    )
    return {"constellation_vs_numpy": ratio}


if __name__ == "__main__":
    main()
