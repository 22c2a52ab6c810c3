"""Look angles of 10,000 satellites for an hour of seconds at one site: ours against SatrecArray and NumPy.

Both use all cores, run SGP4 at every step and compute azimuth, elevation and range as float64; neither stores more than
a portion of the results at a time.
"""

from __future__ import annotations

import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from bentpipe import _native
from bentpipe.orbits import elements, sky
from bentpipe.scenarios.sites import Place
from bentpipe.times import parse_utc

SATELLITES = 10_000
SECONDS = 3600
ROUNDS = 3
START = "2026-05-10T09:00:00Z"
SITE = Place("melbourne", -37.81, 144.96, 31.0)
#: Satellites per portion: the peer's optimum here, as its arrays stay in the cache; ours depends little on it.
PER_BLOCK = 20


def write_shells(path: Path) -> None:
    """Write a TLE file of the first 10,000 satellites of built-in shells, drag included, which both read."""
    from sgp4.api import WGS72, Satrec
    from sgp4.exporter import export_tle

    start = parse_utc(START)
    lines: list[str] = []
    for name in ("starlink-gen1", "kuiper", "starlink-gen1"):
        columns = elements.load_satellites(None, name, start).elements()
        for i in range(len(columns["name"])):
            if len(lines) == 2 * SATELLITES:
                break
            record = Satrec()
            number = len(lines) // 2 + 1
            days = columns["epoch_unix_ns"][i] / 86400e9 + 7306.0  # from 1949-12-31, as sgp4init counts
            perigee, inclination, anomaly, node = (
                np.radians(columns[k][i])
                for k in ("arg_perigee_deg", "inclination_deg", "mean_anomaly_deg", "raan_deg")
            )
            motion = columns["mean_motion_rev_day"][i] * 2 * np.pi / 1440
            orbit_of = (columns["eccentricity"][i], perigee, inclination, anomaly, motion, node)
            record.sgp4init(WGS72, "i", number, days, 2e-4, 0.0, 0.0, *orbit_of)
            record.classification = "U"
            lines += export_tle(record)
    path.write_text("\n".join(lines) + "\n")


_records: list = []


def _load(path: str) -> None:
    from sgp4.api import Satrec

    lines = Path(path).read_text().splitlines()
    _records[:] = [Satrec.twoline2rv(a, b) for a, b in zip(lines[::2], lines[1::2], strict=True)]


def _peer_block(first: int) -> float:
    """Compute SGP4 and look angles of one portion; return a sum, so that nothing is optimised away."""
    from sgp4.api import SatrecArray

    start = parse_utc(START)
    seconds = np.arange(SECONDS)
    midnight = start - start % (86400 * 10**9)
    jd = np.full(SECONDS, midnight / 86400e9 + 2440587.5)
    fraction = (start - midnight) / 86400e9 + seconds / 86400
    _, r, _ = SatrecArray(_records[first : first + PER_BLOCK]).sgp4(jd, fraction)
    centuries = (jd - 2451545.0 + fraction) / 36525
    gmst_s = 67310.54841 + centuries * (876600 * 3600 + 8640184.812866 + centuries * (0.093104 - 6.2e-6 * centuries))
    lst = gmst_s % 86400 * (2 * np.pi / 86400) + np.radians(SITE.lon_deg)
    sin_lst, cos_lst = np.sin(lst), np.cos(lst)
    lat, e2 = np.radians(SITE.lat_deg), 0.00669437999014
    normal = 6378.137 / np.sqrt(1 - e2 * np.sin(lat) ** 2)
    rho, z0 = (normal + SITE.alt_m / 1e3) * np.cos(lat), (normal * (1 - e2) + SITE.alt_m / 1e3) * np.sin(lat)
    x, y, z = r[..., 0], r[..., 1], r[..., 2]
    outward = cos_lst * x + sin_lst * y - rho
    east = cos_lst * y - sin_lst * x
    axial = z - z0
    north = np.cos(lat) * axial - np.sin(lat) * outward
    up = np.cos(lat) * outward + np.sin(lat) * axial
    distance = np.sqrt(east * east + north * north + up * up)
    elevation = np.degrees(np.arcsin(up / distance))
    azimuth = np.degrees(np.arctan2(east, north)) % 360
    return float(azimuth[0, 0] + elevation[0, 0] + distance[0, 0])


def _ours(satellites: _native.Satellites, times: np.ndarray) -> float:
    total = 0.0
    for _, block in sky.look_angle_blocks(satellites, SITE, times, satellites_per_block=PER_BLOCK * 8):
        total += sum(array[::PER_BLOCK, 0].sum() for array in block)
    return total


def main() -> dict[str, float]:
    try:
        import sgp4.api
    except ImportError:
        print("sky_vs_satrecarray: skipped, python-sgp4 is not installed (pip install 'bentpipe[validation]')")
        return {}
    if not sgp4.api.accelerated:
        print("sky_vs_satrecarray: skipped, python-sgp4 was installed without its compiled half")
        return {}
    cores = len(os.sched_getaffinity(0))
    times = parse_utc(START) + np.arange(SECONDS, dtype=np.int64) * 10**9
    mine, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shells.tle"
        write_shells(path)
        satellites = elements.read_elements(path)
        with ProcessPoolExecutor(cores, initializer=_load, initargs=(str(path),)) as pool:
            list(pool.map(_peer_block, range(cores)))  # start the processes, load, warm up
            for i in range(ROUNDS):
                begin = time.perf_counter()
                a = _ours(satellites, times)
                mine.append(time.perf_counter() - begin)
                begin = time.perf_counter()
                b = sum(pool.map(_peer_block, range(0, SATELLITES, PER_BLOCK)))
                theirs.append(time.perf_counter() - begin)
                print(f"  round {i + 1}/{ROUNDS}: ours {mine[-1]:.2f} s, SatrecArray {theirs[-1]:.2f} s")
    if abs(a / b - 1) > 1e-6:
        raise SystemExit(f"sky: ours and the peer's angles differ: {a} against {b}")
    ratio = min(theirs) / min(mine)
    each = 1e9 * cores / (SATELLITES * SECONDS)
    print(
        f"sky_vs_satrecarray: {ratio:.1f} (best of {ROUNDS}, {cores} cores: ours {min(mine):.2f} s, "
        f"{min(mine) * each:.0f} core-ns a look angle; SatrecArray + NumPy {min(theirs):.2f} s, "
        f"{min(theirs) * each:.0f} core-ns)"
    )
    return {"sky_vs_satrecarray": ratio}


if __name__ == "__main__":
    main()
