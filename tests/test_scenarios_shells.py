"""Walker shells: sizes and mean motions of the filings, and the geometry behind each phasing."""

from __future__ import annotations

import cmath
import gzip
import json
import math
from datetime import UTC, datetime

import pytest
from shared_data import require_data

from bentpipe.scenarios.shells import (
    WGS72_MU_KM3_S2,
    WGS72_RADIUS_KM,
    constellation_names,
    load_constellation,
    mean_motion_rev_per_day,
)

#: Starlink's general-perturbations elements of 21 May 2024 (Celestrak), outside this repository.
#: Second zonal harmonic of WGS72 (Vallado et al., AIAA 2006-6753, table 1).
WGS72_J2 = 0.001082616


@pytest.mark.parametrize(
    ("name", "satellites"),
    [("starlink-gen1", 4408), ("starlink-s1", 1584), ("kuiper", 3236), ("oneweb", 588), ("geo", 1)],
)
def test_constellations_have_the_satellites_of_their_filings(name, satellites):
    assert load_constellation(name).satellites == satellites


def test_every_packaged_constellation_is_checked():
    assert constellation_names() == ["geo", "kuiper", "oneweb", "starlink-gen1", "starlink-s1"]


def test_mean_motion_follows_wgs72():
    assert mean_motion_rev_per_day(550.0) == pytest.approx(15.055, abs=5e-4)
    # The satellites that are said to fly at 550 km with 15.19 revolutions a day fly at 509 km.
    assert mean_motion_rev_per_day(509.0) == pytest.approx(15.19, abs=1e-3)
    # A geostationary satellite turns once a sidereal day, 86164.09 s.
    assert mean_motion_rev_per_day(35786.0) == pytest.approx(86400 / 86164.09, rel=1e-5)


# -- phasing: the geometry behind the chosen F -------------------------------------------------------------------------


def _cos_central_angles(inclination_deg, raan_rad, phase_rad):
    """Extremes over an orbit of the cosine of the angle between two satellites whose planes differ by `raan_rad` and
    whose arguments of latitude differ by `phase_rad` (spherical trigonometry)."""
    ci, si = math.cos(math.radians(inclination_deg)), math.sin(math.radians(inclination_deg))
    k = ci * ci * math.cos(raan_rad) + si * si
    mean = math.cos(phase_rad) * (math.cos(raan_rad) + k) / 2 - ci * math.sin(raan_rad) * math.sin(phase_rad)
    swing = abs(math.cos(raan_rad) - k) / 2
    return mean - swing, mean + swing


def min_distance_km(planes, per_plane, phasing, altitude_km, inclination_deg, *, spread_deg=360.0):
    """Smallest distance ever between two satellites of different planes of a Walker shell."""
    nearest = max(
        _cos_central_angles(
            inclination_deg,
            math.radians(spread_deg) * p / planes,
            2 * math.pi * (s / per_plane + phasing * p / (planes * per_plane)),
        )[1]
        for p in range(1, planes)
        for s in range(per_plane)
    )
    return 2 * (WGS72_RADIUS_KM + altitude_km) * math.sin(math.acos(min(1.0, nearest)) / 2)


def grid_clearance_km(planes, per_plane, phasing, altitude_km, inclination_deg, *, spread_deg=360.0):
    """Smallest height above the Earth of any +Grid link between neighbouring planes, the wrapping one included."""
    step = 2 * math.pi * phasing / (planes * per_plane)
    farthest = min(
        _cos_central_angles(inclination_deg, math.radians(spread_deg) * dp / planes, step * dp)[0]
        for dp in (1, -(planes - 1))
    )
    radius_km = WGS72_RADIUS_KM + altitude_km
    return radius_km * math.cos(math.acos(max(-1.0, farthest)) / 2) - WGS72_RADIUS_KM


def test_min_distance_agrees_with_the_published_values():
    # Liang, Chaudhry and Yanikomeroglu, arXiv:2109.13994: 61.83 km for 22 planes of 72, 55.89 km for Kuiper shell 2.
    assert min_distance_km(22, 72, 17, 550, 53) == pytest.approx(61.83, abs=0.1)
    assert min_distance_km(36, 36, 11, 610, 42) == pytest.approx(55.89, abs=0.1)


def shells():
    return [pytest.param(s, id=f"{c}:{s.name}") for c in constellation_names() for s in load_constellation(c).shells]


@pytest.mark.parametrize("shell", shells())
def test_no_two_satellites_meet_and_no_link_passes_through_the_earth(shell):
    walker = (shell.planes, shell.satellites_per_plane, shell.phasing, shell.altitude_km, shell.inclination_deg)
    if shell.planes > 1:
        assert min_distance_km(*walker, spread_deg=shell.raan_spread_deg) > 10
    if shell.isl == "grid":
        assert grid_clearance_km(*walker, spread_deg=shell.raan_spread_deg) > 80
        radius_km = WGS72_RADIUS_KM + shell.altitude_km
        assert radius_km * math.cos(math.pi / shell.satellites_per_plane) - WGS72_RADIUS_KM > 80


@pytest.mark.parametrize("shell", [p for p in shells() if p.values[0].isl == "grid"])
def test_phasing_is_the_safest_that_keeps_the_grid_clear_of_the_earth(shell):
    """Holds for the values chosen here, and for those of the Kuiper filing, which nobody here chose."""
    size, orbit = (shell.planes, shell.satellites_per_plane), (shell.altitude_km, shell.inclination_deg)
    clear = [f for f in range(shell.planes) if grid_clearance_km(*size, f, *orbit) > 80]
    best = max(min_distance_km(*size, f, *orbit) for f in clear)
    assert min_distance_km(*size, shell.phasing, *orbit) == pytest.approx(best, abs=1e-6)


# -- as flown ----------------------------------------------------------------------------------------------------------


def flown(altitude_km, inclination_deg):
    """(RAAN, argument of latitude) [deg] at one epoch of the satellites within 3 km and 0.08 degrees of a shell."""
    elements = json.loads(gzip.decompress(require_data("omm_starlink/starlink_gp_2024-05-21.json.gz").read_bytes()))
    days = [datetime.fromisoformat(e["EPOCH"]).replace(tzinfo=UTC).timestamp() / 86400 for e in elements]
    epoch_day = sorted(days)[len(days) // 2]
    results = []
    for e, day in zip(elements, days, strict=True):
        n, i = e["MEAN_MOTION"], math.radians(e["INCLINATION"])
        a_km = (WGS72_MU_KM3_S2 / (n * 2 * math.pi / 86400) ** 2) ** (1 / 3)
        near = abs(a_km - WGS72_RADIUS_KM - altitude_km) < 3 and abs(e["INCLINATION"] - inclination_deg) < 0.08
        if near and abs(day - epoch_day) < 0.7:
            # Secular drift of node and perigee by J2 (Vallado, Fundamentals of Astrodynamics, eqs. 9-37 and 9-39).
            k = WGS72_J2 * (WGS72_RADIUS_KM / a_km) ** 2 * n * 360
            raan = e["RA_OF_ASC_NODE"] - 1.5 * k * math.cos(i) * (epoch_day - day)
            latitude = e["ARG_OF_PERICENTER"] + e["MEAN_ANOMALY"]
            latitude += (n * 360 + 0.75 * k * (5 * math.cos(i) ** 2 - 1)) * (epoch_day - day)
            results.append((raan, latitude))
    return results


@pytest.mark.parametrize(
    ("orbit", "planes", "slots", "phasing", "length"),
    [((550, 53.05), 72, 18, 45, 0.91), ((570, 70.0), 36, 16, 17, 0.98)],
)
def test_starlink_uses_fewer_slots_than_filed(orbit, planes, slots, phasing, length):
    """On a Walker shell, S u - F RAAN is the same angle for every satellite: the mean resultant length of it is 1."""
    satellites = flown(*orbit)

    def resultant_length(s, f):
        return abs(sum(cmath.exp(1j * math.radians(s * u - f * raan)) for raan, u in satellites)) / len(satellites)

    fits = {(s, f): resultant_length(s, f) for s in range(15, 25) for f in range(planes)}
    assert max(fits, key=fits.__getitem__) == (slots, phasing)
    assert fits[slots, phasing] == pytest.approx(length, abs=0.01)
