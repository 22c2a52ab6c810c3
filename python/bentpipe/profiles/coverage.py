"""Coverage of a place: which gateways are in reach, and in how many slots a satellite sees both it and one of them.

There are no inter-satellite links here: a terminal is served by a satellite that sees a gateway at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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

#: Slots that are looked at, spread evenly over a day. Chosen here: a share of one half then has a standard error of
#: 5 points, and all packaged sites take under a second.
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
    """How well a place is served.

    Attributes:
        gateways: Gateways that a satellite above the place can see.
        share: Share of `SLOTS` slots, spread over a day, in which at least one satellite can serve the place.
    """

    gateways: int
    share: float


def coverage(places: Sequence[Place], gateways: GatewayList | None = None) -> list[Coverage]:
    """Return the coverage of each place by the default constellation.

    A satellite can serve a slot under the scheduler's rule (`bentpipe.orbit.schedule`): at the slot's begin and end it
    is above the mask at the place and clear of the geostationary arc, and one gateway has it above its own mask. That
    depends on no policy and no seed. The slots lie every 15 minutes of the day that a Profile is made for by default.

    Args:
        places: Where terminals stand.
        gateways: The list to use; by default the packaged one.
    """
    ground = gateways or load_gateways()
    day_ns = parse_utc(DEFAULT_START_UTC) // _DAY_NS * _DAY_NS
    satellites = elements.load_satellites(None, None, day_ns)
    shells = load_constellation(elements.DEFAULT_SKY).shells
    mask_deg = min(shell.min_elevation_deg for shell in shells)
    reach = reach_km(satellites, mask_deg, ground.min_elevation_deg)
    begins = day_ns + SLOT_PHASE_NS + np.arange(SLOTS, dtype=np.int64) * (_DAY_NS // SLOTS)
    begin_km, end_km = (_ecef_km(satellites, times) for times in (begins, begins + SLOT_NS))
    below = (begin_km / np.linalg.norm(begin_km, axis=-1, keepdims=True)).astype(np.float32)
    found = []
    for place in places:
        here = (place.lat_deg, place.lon_deg)
        near = [g for g in ground.gateways if great_circle_km(here, (g.lat_deg, g.lon_deg)) <= reach]
        stations = [_Station(g.lat_deg, g.lon_deg, 0.0, ground.min_elevation_deg) for g in near]
        terminal = _Station(place.lat_deg, place.lon_deg, place.alt_m, mask_deg)
        # The circle around the place in which its satellites are is smaller than that of the gateways: drop the rest.
        above = below @ terminal.up.astype(np.float32) >= math.cos(reach / WGS72_RADIUS_KM)
        served = 0
        if near:
            slot = np.nonzero(above)[1]
            served = _served(terminal, stations, slot, begin_km[above], end_km[above], gso_exclusion_deg(shells))
        found.append(Coverage(len(near), served / SLOTS))
    return found


def reach_km(satellites: Satellites, min_elevation_deg: float, gateway_min_elevation_deg: float) -> float:
    """The farthest a gateway can be from a terminal that uses the same satellite, along the ground [km].

    Both stand in the circle under the highest satellite at its apogee; 2 % and 100 km for the ellipsoid and heights.
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
    """The widest exclusion of the shells; none where no shell has one."""
    return max((shell.gso_exclusion_deg or 0.0 for shell in shells), default=0.0)


class _Station:
    """A place on the WGS84 ellipsoid from which satellites count above an elevation."""

    def __init__(self, lat_deg: float, lon_deg: float, alt_m: float, min_elevation_deg: float) -> None:
        lat, lon = math.radians(lat_deg), math.radians(lon_deg)
        self.up = np.array([math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)])
        e2 = _WGS84_F * (2 - _WGS84_F)
        normal_km = _WGS84_A_KM / math.sqrt(1 - e2 * math.sin(lat) ** 2)
        self.position_km = normal_km * self.up * np.array([1, 1, 1 - e2]) + alt_m / 1e3 * self.up
        self.least_sin = math.sin(math.radians(min_elevation_deg))

    def sees(self, position_km: Floats) -> NDArray[np.bool_]:
        """Whether each position, of shape (…, 3), is above the mask."""
        way = position_km - self.position_km
        seen: NDArray[np.bool_] = way @ self.up >= self.least_sin * np.linalg.norm(way, axis=-1)
        return seen

    def clear_of_gso(self, position_km: Floats, exclusion_deg: float) -> NDArray[np.bool_]:
        """Whether each position is at least that far from the visible part of the geostationary arc."""
        longitude = np.radians(np.arange(0.0, 360.0, _GSO_STEP_DEG))
        arc = _GSO_RADIUS_KM * np.stack([np.cos(longitude), np.sin(longitude), np.zeros_like(longitude)], axis=-1)
        arc -= self.position_km
        arc = arc[arc @ self.up >= 0] / np.linalg.norm(arc[arc @ self.up >= 0], axis=-1, keepdims=True)
        way = position_km - self.position_km
        way /= np.linalg.norm(way, axis=-1, keepdims=True)
        clear: NDArray[np.bool_] = (way @ arc.T).max(axis=-1, initial=-1.0) <= math.cos(math.radians(exclusion_deg))
        return clear


def _served(
    terminal: _Station,
    gateways: Sequence[_Station],
    slot: NDArray[np.intp],
    first: Floats,
    last: Floats,
    exclusion_deg: float,
) -> int:
    """Slots with a satellite that can serve: one row a satellite and slot, its positions at the begin and the end."""
    seen = terminal.sees(first) & terminal.sees(last)
    slot, first, last = slot[seen], first[seen], last[seen]
    lands = np.zeros(len(slot), bool)
    for gateway in gateways:
        lands |= gateway.sees(first) & gateway.sees(last)
    slot, first, last = slot[lands], first[lands], last[lands]
    clear = terminal.clear_of_gso(first, exclusion_deg) & terminal.clear_of_gso(last, exclusion_deg)
    return len(np.unique(slot[clear]))


def _ecef_km(satellites: Satellites, times_unix_ns: NDArray[np.int64]) -> Floats:
    """Positions in Earth-fixed axes, of shape (satellites, times, 3); NaN where one cannot be propagated."""
    look = sky.look_angles(satellites, Place("null island", 0.0, 0.0), times_unix_ns)
    azimuth, elevation = np.radians(look.azimuth_deg), np.radians(look.elevation_deg)
    flat_km = look.range_km * np.cos(elevation)
    up_km = look.range_km * np.sin(elevation)  # from latitude 0, longitude 0: up is x, east is y, north is z
    return np.stack([_WGS84_A_KM + up_km, flat_km * np.sin(azimuth), flat_km * np.cos(azimuth)], axis=-1)
