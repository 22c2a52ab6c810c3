"""Coverage of a place: gateways in reach, and the share of slots in which a satellite can serve a terminal there.

Without inter-satellite links the serving satellite must see the terminal and a gateway at the same time. With them it
must see the terminal and have links, which lead to a gateway.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bentpipe._native import Satellites
from bentpipe.orbits import elements, sky
from bentpipe.scenarios.fibre import great_circle_km
from bentpipe.scenarios.ground import GatewayList, load_gateways
from bentpipe.scenarios.shells import WGS72_MU_KM3_S2, WGS72_RADIUS_KM, Shell, load_constellation
from bentpipe.scenarios.sites import Place
from bentpipe.times import DEFAULT_START_UTC, parse_utc

#: Number of slots sampled, spread evenly over a day. Chosen here: a share of one half then has a standard error of
#: 5 points, and all packaged sites take a few seconds.
SLOTS = 96
SLOT_NS, SLOT_PHASE_NS = 15 * 10**9, 12 * 10**9

_DAY_NS = 86_400 * 10**9
_WGS84_A_KM, _WGS84_F = 6378.137, 1 / 298.257223563
_GSO_RADIUS_KM = 42_164.17
#: Step along the geostationary arc [deg]: at 18° from it an angle is then wrong by less than 0.01°.
_GSO_STEP_DEG = 0.5

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of one place.

    Attributes:
        gateways: Number of gateways that a satellite above the place can see.
        share: Share of `SLOTS` slots, spread over a day, in which at least one satellite can serve the place as a bent
            pipe.
        share_with_lasers: The same, over inter-satellite links where there is no bent pipe.
    """

    gateways: int
    share: float
    share_with_lasers: float


def coverage(
    places: Sequence[Place],
    gateways: GatewayList | None = None,
    on_progress: Callable[[float], None] = lambda fraction: None,
) -> list[Coverage]:
    """Return the coverage of each place by the default constellation.

    A satellite can serve a slot under the scheduler's rule (`bentpipe.orbit.schedule`): at the slot's begin and end it
    is above the minimum elevation at the place and clear of the geostationary arc, and one gateway sees it.
    The result depends on no policy and no seed. The slots lie every 15 minutes of the default day of a Profile.

    Args:
        places: Positions of terminals.
        gateways: Gateway list; default: the packaged one.
        on_progress: Called with the fraction done.
    """
    ground = gateways or load_gateways()
    day_ns = parse_utc(DEFAULT_START_UTC) // _DAY_NS * _DAY_NS
    satellites = elements.load_satellites(None, None, day_ns)
    shells = load_constellation(elements.DEFAULT_SKY).shells
    mask_deg = min(shell.min_elevation_deg for shell in shells)
    reach = reach_km(satellites, mask_deg, ground.min_elevation_deg)
    begins = day_ns + SLOT_PHASE_NS + np.arange(SLOTS, dtype=np.int64) * (_DAY_NS // SLOTS)
    begin_km, end_km = (_ecef_km(satellites, times) for times in (begins, begins + SLOT_NS))
    linked = np.repeat([shell.isl != "none" for shell in shells], [shell.satellites for shell in shells])
    exclusion_deg = gso_exclusion_deg(shells)
    below = (begin_km / np.linalg.norm(begin_km, axis=-1, keepdims=True)).astype(np.float32)
    results = []
    for place in places:
        here = (place.lat_deg, place.lon_deg)
        near = [g for g in ground.gateways if great_circle_km(here, (g.lat_deg, g.lon_deg)) <= reach]
        stations = [_Station(g.lat_deg, g.lon_deg, 0.0, ground.min_elevation_deg) for g in near]
        terminal = _Station(place.lat_deg, place.lon_deg, place.alt_m, mask_deg)
        # Satellites above the place are nearer than its farthest gateways: drop the rest.
        above = below @ terminal.up.astype(np.float32) >= math.cos(reach / WGS72_RADIUS_KM)
        satellite, slot = np.nonzero(above)
        first, last = begin_km[above], end_km[above]
        visible = terminal.sees(first) & terminal.sees(last)
        satellite, slot, first, last = satellite[visible], slot[visible], first[visible], last[visible]
        has_gateway = np.zeros(len(slot), bool)
        for station in stations:
            has_gateway |= station.sees(first) & station.sees(last)
        served = _served(terminal, slot, first, last, has_gateway, exclusion_deg)
        with_lasers = served
        if served < SLOTS:
            with_lasers = _served(terminal, slot, first, last, has_gateway | linked[satellite], exclusion_deg)
        results.append(Coverage(len(near), served / SLOTS, with_lasers / SLOTS))
        on_progress(len(results) / len(places))
    return results


def coverage_text(bent_percent: int, with_lasers_percent: int) -> str:
    """Return shares of slots as text: that of bent pipes, or ``lasers`` where there are none.

    Example:
        >>> [coverage_text(*shares) for shares in ((100, 100), (0, 100), (37, 100), (0, 0))]
        ['100 %', 'lasers', '37 %', '0 %']
    """
    return "lasers" if bent_percent == 0 < with_lasers_percent else f"{bent_percent} %"


def reach_km(satellites: Satellites, min_elevation_deg: float, gateway_min_elevation_deg: float) -> float:
    """Return the largest ground distance [km] between a terminal and a gateway that use the same satellite.

    Both lie in the coverage circle of the highest satellite at its apogee. A margin of 2 % and 100 km covers the
    ellipsoid and heights.
    """
    columns = satellites.elements()
    motion_rad_s = columns["mean_motion_rev_day"] * 2 * math.pi / 86_400
    apogee_km = float(((WGS72_MU_KM3_S2 / motion_rad_s**2) ** (1 / 3) * (1 + columns["eccentricity"])).max())

    def half_angle_rad(elevation_deg: float) -> float:
        elevation = math.radians(elevation_deg)
        return math.acos(min(1.0, WGS72_RADIUS_KM / apogee_km * math.cos(elevation))) - elevation

    angle = half_angle_rad(min_elevation_deg) + half_angle_rad(gateway_min_elevation_deg)
    return angle * WGS72_RADIUS_KM * 1.02 + 100.0


def gso_exclusion_deg(shells: Sequence[Shell]) -> float:
    """Return the widest exclusion angle around the geostationary arc of the shells [deg]; 0 if none has one."""
    return max((shell.gso_exclusion_deg or 0.0 for shell in shells), default=0.0)


class _Station:
    """A terminal or gateway on the WGS84 ellipsoid, with its minimum elevation."""

    def __init__(self, lat_deg: float, lon_deg: float, alt_m: float, min_elevation_deg: float) -> None:
        lat, lon = math.radians(lat_deg), math.radians(lon_deg)
        self.up = np.array([math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)])
        e2 = _WGS84_F * (2 - _WGS84_F)
        normal_km = _WGS84_A_KM / math.sqrt(1 - e2 * math.sin(lat) ** 2)
        self.position_km = normal_km * self.up * np.array([1, 1, 1 - e2]) + alt_m / 1e3 * self.up
        self.min_sin = math.sin(math.radians(min_elevation_deg))

    def sees(self, position_km: Floats) -> NDArray[np.bool_]:
        """Return whether each position, of shape (…, 3), is above the minimum elevation."""
        offset = position_km - self.position_km
        visible: NDArray[np.bool_] = offset @ self.up >= self.min_sin * np.linalg.norm(offset, axis=-1)
        return visible

    def clear_of_gso(self, position_km: Floats, exclusion_deg: float) -> NDArray[np.bool_]:
        """Return whether each position is at least that angle away from the visible geostationary arc."""
        longitude = np.radians(np.arange(0.0, 360.0, _GSO_STEP_DEG))
        arc = _GSO_RADIUS_KM * np.stack([np.cos(longitude), np.sin(longitude), np.zeros_like(longitude)], axis=-1)
        arc -= self.position_km
        arc = arc[arc @ self.up >= 0] / np.linalg.norm(arc[arc @ self.up >= 0], axis=-1, keepdims=True)
        offset = position_km - self.position_km
        offset /= np.linalg.norm(offset, axis=-1, keepdims=True)
        clear: NDArray[np.bool_] = (offset @ arc.T).max(axis=-1, initial=-1.0) <= math.cos(math.radians(exclusion_deg))
        return clear


def _served(
    terminal: _Station,
    slot: NDArray[np.intp],
    first: Floats,
    last: Floats,
    has_path: NDArray[np.bool_],
    exclusion_deg: float,
) -> int:
    """Count the slots in which a satellite with a path to a gateway is clear of the geostationary arc.

    Each row is one satellite in one slot, with its positions at the begin and the end.
    """
    slot, first, last = slot[has_path], first[has_path], last[has_path]
    clear = terminal.clear_of_gso(first, exclusion_deg) & terminal.clear_of_gso(last, exclusion_deg)
    return len(np.unique(slot[clear]))


def _ecef_km(satellites: Satellites, times_unix_ns: NDArray[np.int64]) -> Floats:
    """Return positions in Earth-fixed axes [km], shape (satellites, times, 3); NaN where propagation fails."""
    look = sky.look_angles(satellites, Place("null island", 0.0, 0.0), times_unix_ns)
    azimuth, elevation = np.radians(look.azimuth_deg), np.radians(look.elevation_deg)
    flat_km = look.range_km * np.cos(elevation)
    up_km = look.range_km * np.sin(elevation)  # from latitude 0, longitude 0: up is x, east is y, north is z
    return np.stack([_WGS84_A_KM + up_km, flat_km * np.sin(azimuth), flat_km * np.cos(azimuth)], axis=-1)
