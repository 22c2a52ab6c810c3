"""Compare paths over inter-satellite links with a recomputation, with geometric bounds and with published RTTs.

python-sgp4 reads the same two-line elements, NumPy measures, SciPy's Dijkstra finds the least delay to the PoP.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bentpipe.orbits.elements import load_satellites
from bentpipe.profiles.make import make_profile
from bentpipe.scenarios.fibre import great_circle_km
from bentpipe.scenarios.ground import load_gateways, pop_by_code
from bentpipe.scenarios.shells import Shell, load_constellation
from bentpipe.times import parse_utc
from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.independent import LIGHT_KM_S, Floats, Satellites, Station
from bentpipe.validation.tle import two_line_elements

#: At the edge of a slot.
START = "2026-05-10T09:00:12Z"
DURATION_S = 1800.0
SLOT_NS = 15 * 10**9
MIN_ELEVATION_DEG = 25.0
TOLERANCE_MS = 1e-3
#: The ship: 20 knots to the east from 30° N 40° W.
SHIP = "time,lat,lon\n2026-05-10T09:00:12Z,30,-40\n2026-05-10T10:00:12Z,30,-39.615\n"


@dataclass(frozen=True)
class Case:
    """A terminal with its server, and what is published about its RTT.

    Attributes:
        site: The terminal; None: the ship.
        to: The server.
        published: Published RTT with its source; empty: none found.
    """

    site: str | None
    to: str
    published: str = ""


CASES = {
    "Cape Town – Lagos": Case("cape-town", "lagos"),
    "Johannesburg – Johannesburg": Case(
        "johannesburg", "johannesburg", "200 to 335 ms, tests to South Africa over Lagos, 2023 and 2024 (MyBroadband)"
    ),
    "Nairobi – Lagos": Case("nairobi", "lagos", "120 ms on average before Nairobi's gateway, January 2025 (Elcome)"),
    "Singapore – Singapore": Case("singapore", "singapore"),
    "Reykjavik – London": Case("reykjavik", "london"),
    "McMurdo – Christchurch": Case("mcmurdo", "-43.53,172.64"),
    "ship at 30° N 40° W – London": Case(None, "london"),
    "Tarawa – Auckland": Case(
        "1.45,172.97", "auckland", "65 ms at least, 100 to 200 usual, April 2023 (Speidel, bufferbloat list)"
    ),
}


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Compare every case, slot by slot; needs no data."""
    del data
    start = parse_utc(START)
    times = start + np.arange(round(DURATION_S * 1e9 / SLOT_NS) + 1, dtype=np.int64) * SLOT_NS
    recomputation = _Recomputation(times)
    rows: list[Row] = []
    for done, (name, case) in enumerate(CASES.items(), 1):
        metadata, rtt_ms = _path(case, start)
        rows += _rows(name, case, metadata, rtt_ms, recomputation)
        on_progress(done / len(CASES))
    return Outcome("inter-satellite", rows, [f"{DURATION_S / 60:g} minutes from {START}, starlink-gen1, loss idle"])


def _path(case: Case, start_unix_ns: int) -> tuple[dict[str, Any], Floats]:
    """Make the Profile of a case; return its metadata and the RTT of a lone packet at each tenth of a second [ms]."""
    from bentpipe.profiles.path import PathView

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        track = Path(folder) / "ship.csv"
        track.write_text(SHIP, encoding="ascii")
        where: dict[str, Any] = {"track": track} if case.site is None else {}
        profile = make_profile(
            case.site, case.to, start_unix_ns=start_unix_ns, duration_s=DURATION_S, loss="idle", **where
        )
    rtt_ms = PathView(profile).rtt_ms(np.arange(0.0, DURATION_S, 0.1))
    return json.loads(profile.metadata_json()), rtt_ms


def _rows(name: str, case: Case, metadata: dict[str, Any], rtt_ms: Floats, recomputation: _Recomputation) -> list[Row]:
    recipe = metadata["provenance"]["recipe"]
    slots = recipe["schedule"]["slots"]
    ground = recipe["ground"]["gateways"]
    pop = next(iter(ground.values()))["pop"]
    to_server_ms = next(iter(ground.values()))["pop_server_ns"] / 1e6
    lasers = [len(slot["serving"].get("relays", ())) for slot in slots if slot["serving"] is not None]
    worst_legs_ms, worst_path_ms = recomputation.deviations_ms(slots, pop)
    bound_ms = 2 * (_bound_ms(recipe["schedule"]["site"], pop) + to_server_ms)
    median, least = float(np.nanmedian(rtt_ms)), float(np.nanmin(rtt_ms))
    covered = len(lasers) == len(slots)
    return [
        Row(
            f"{name}: legs and least delay",
            f"{sum(count > 0 for count in lasers)} of {len(slots)} slots over 1 to {max(lasers, default=0)} lasers",
            f"legs at most {worst_legs_ms * 1e6:.3f} ns off, path {worst_path_ms * 1e6:.3f} ns above the least",
            "1 µs",
            covered and bool(max(worst_legs_ms, worst_path_ms) <= TOLERANCE_MS),
        ),
        Row(
            f"{name}: RTT over the PoP {pop} [ms]",
            f"least {least:.1f}, median {median:.1f}, p95 {float(np.nanquantile(rtt_ms, 0.95)):.1f}",
            f"light to the PoP and fibre on: {bound_ms:.1f}"
            + (f"; published: {case.published}" if case.published else ""),
            "not below the bound",
            bool(least >= bound_ms),
        ),
    ]


def _bound_ms(site: dict[str, float], pop: str) -> float:
    """Return the one-way delay of light in vacuum along the ground to the PoP."""
    there = pop_by_code(pop)
    km = great_circle_km((site["lat_deg"], site["lon_deg"]), (there.lat_deg, there.lon_deg))
    return km / LIGHT_KM_S * 1e3


class _Recomputation:
    """Least delays from every satellite to a PoP at the start of each slot."""

    def __init__(self, times_unix_ns: NDArray[np.int64]) -> None:
        self._positions = Satellites(two_line_elements(load_satellites(None, None, int(times_unix_ns[0])))).ecef_km(
            times_unix_ns
        )
        self._ends = _links(load_constellation("starlink-gen1").shells)
        self._gateways = list(load_gateways().gateways)
        stations = [Station(gateway.lat_deg, gateway.lon_deg) for gateway in self._gateways]
        self._stations = {gateway.label: station for gateway, station in zip(self._gateways, stations, strict=True)}

    def deviations_ms(self, slots: list[dict[str, Any]], pop: str) -> tuple[float, float]:
        """Return the largest deviation of a leg [ms], and of the delay over lasers from the least one [ms]."""
        from bentpipe.scenarios.fibre import fibre_one_way_ms

        there = pop_by_code(pop)
        fibre_ms = {
            gateway.label: fibre_one_way_ms(
                (gateway.lat_deg, gateway.lon_deg), (there.lat_deg, there.lon_deg)
            ).one_way_ms
            for gateway in self._gateways
        }
        legs, path = [0.0], [0.0]
        for number, slot in enumerate(slots):
            serving = slot["serving"]
            if serving is None:
                continue
            chain = [serving["norad_id"] - 1, *(relay["norad_id"] - 1 for relay in serving.get("relays", ()))]
            at = self._positions[:, number]
            links = np.linalg.norm(np.diff(at[chain], axis=0), axis=1)
            given = [relay["link_km"][0] for relay in serving.get("relays", ())]
            down_km = float(self._stations[serving["gateway"]].look(at[chain[-1]])[1])
            differences = [*np.abs(links - given), abs(down_km - serving["gateway_leg_km"][0])]
            legs.append(max(differences) / LIGHT_KM_S * 1e3)
            if given:
                total_ms = (sum(given) + serving["gateway_leg_km"][0]) / LIGHT_KM_S * 1e3 + fibre_ms[serving["gateway"]]
                path.append(abs(total_ms - self._least_ms(number, chain[0], fibre_ms)))
        return max(legs), max(path)

    def _least_ms(self, number: int, satellite: int, fibre_ms: dict[str, float]) -> float:
        """Return the least delay from a satellite over lasers and a gateway to the PoP."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import dijkstra

        at, later = self._positions[:, number], self._positions[:, number + 1]
        exit_ms = np.full(len(at), np.inf)
        for label, station in self._stations.items():
            elevation, range_km = station.look(at)
            sees = (elevation >= MIN_ELEVATION_DEG) & (station.look(later)[0] >= MIN_ELEVATION_DEG)
            exit_ms[sees] = np.minimum(exit_ms[sees], range_km[sees] / LIGHT_KM_S * 1e3 + fibre_ms[label])
        a, b = self._ends
        link_ms = np.linalg.norm(at[a] - at[b], axis=1) / LIGHT_KM_S * 1e3
        exits = np.flatnonzero(np.isfinite(exit_ms))
        pop = len(at)
        rows, columns = np.concatenate([a, b, np.full(len(exits), pop)]), np.concatenate([b, a, exits])
        graph = csr_array(
            (np.concatenate([link_ms, link_ms, exit_ms[exits]]), (rows, columns)), shape=(pop + 1, pop + 1)
        )
        return float(dijkstra(graph, indices=np.array([pop]))[0, satellite])


def _links(shells: tuple[Shell, ...]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return both ends of every link: next in the plane, and the nearest along the orbit in the plane to the east."""
    ends: list[tuple[int, int]] = []
    first = 0
    for shell in shells:
        planes, slots = shell.planes, shell.satellites_per_plane
        along = np.arange(slots) / slots + shell.phasing * np.arange(planes)[:, None] / (planes * slots)
        for plane in range(planes):
            east = (plane + 1) % planes
            for slot in range(slots):
                own = first + plane * slots + slot
                if shell.isl != "none":
                    ends.append((own, first + plane * slots + (slot + 1) % slots))
                if shell.isl == "grid":
                    ahead = along[east] - along[plane, slot]
                    nearest = int(np.argmin(np.abs(ahead - np.round(ahead))))
                    ends.append((own, first + east * slots + nearest))
        first += planes * slots
    pairs = np.array(ends)
    return pairs[:, 0], pairs[:, 1]
