"""Attitude of a simulated terminal: boresight, desired boresight and quaternion."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Desired boresight elevation, poleward [deg]. Published dumps have 63.1 at 48.5 degrees north (LEOViz,
#: May 2025) and 67.4 (NUWiNS/starlink-measurement).
DESIRED_ELEVATION_DEG = 64.0
#: Pointing errors of the simulated mount, and the reported attitude uncertainty [deg]. Chosen here: the best and the
#: worst attitude uncertainty in those dumps are 0.6 and 7.4.
OFF_AZIMUTH_DEG, OFF_ELEVATION_DEG, UNCERTAINTY_DEG = -4.0, 1.5, 0.8


@dataclass(frozen=True, slots=True)
class Aim:
    """Boresight and desired boresight: azimuths clockwise from north, -180 to 180; elevations [deg]."""

    azimuth_deg: float
    elevation_deg: float
    desired_azimuth_deg: float
    desired_elevation_deg: float


def aim(latitude_deg: float) -> Aim:
    """Return boresight and desired boresight of a terminal at a latitude."""
    desired = 0.0 if latitude_deg >= 0 else 180.0
    azimuth = (desired + OFF_AZIMUTH_DEG + 180.0) % 360.0 - 180.0
    return Aim(azimuth, DESIRED_ELEVATION_DEG + OFF_ELEVATION_DEG, desired, DESIRED_ELEVATION_DEG)


def quaternion(aimed: Aim) -> tuple[float, float, float, float]:
    """Return scalar, x, y, z of a half turn about the bisector of down and the boresight (axes north, east, down).

    Turned by it, the terminal's third axis is its boresight, as in the dumps of LEOViz (May 2025). Its other two axes,
    which no field of the interface shows, are then where this turn puts them.
    """
    azimuth, elevation = math.radians(aimed.azimuth_deg), math.radians(aimed.elevation_deg)
    north, east = math.cos(elevation) * math.cos(azimuth), math.cos(elevation) * math.sin(azimuth)
    x, y, z = north, east, 1.0 - math.sin(elevation)
    length = math.sqrt(x * x + y * y + z * z)
    return 0.0, x / length, y / length, z / length


def boresight_of(scalar: float, x: float, y: float, z: float) -> tuple[float, float]:
    """Return azimuth and elevation [deg] of the third axis rotated by a quaternion."""
    north, east = 2 * (x * z + scalar * y), 2 * (y * z - scalar * x)
    down = 1 - 2 * (x * x + y * y)
    return math.degrees(math.atan2(east, north)), math.degrees(math.asin(max(-1.0, min(1.0, -down))))
