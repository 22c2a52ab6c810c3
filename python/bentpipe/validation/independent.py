"""Positions by python-sgp4 and NumPy, for recomputations that share only the conventions with ours."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LIGHT_KM_S = 299_792.458
_DAY_NS = 86_400 * 10**9


class Satellites:
    """Satellites of two-line elements, in Earth-fixed axes."""

    def __init__(self, lines: list[str]) -> None:
        """Read lines 1 and 2 of each satellite."""
        from sgp4.api import Satrec, SatrecArray

        self._satellites = SatrecArray([Satrec.twoline2rv(a, b) for a, b in zip(lines[::2], lines[1::2], strict=True)])

    def ecef_km(self, times_unix_ns: NDArray[np.int64]) -> Floats:
        """Return the positions [km], shape (satellites, times, 3)."""
        days, nanos = np.divmod(times_unix_ns, _DAY_NS)
        jd, fraction = days + 2440587.5, nanos / _DAY_NS
        error, teme, _ = self._satellites.sgp4(jd, fraction)
        if error.any():
            raise RuntimeError(f"python-sgp4 reports errors {set(error.ravel().tolist())}")
        # IAU 1982 (Aoki et al.): seconds of GMST from centuries of UT1.
        t = (jd - 2451545.0 + fraction) / 36_525
        gmst_s = 67310.54841 + (876_600 * 3600 + 8640184.812866) * t + 0.093104 * t**2 - 6.2e-6 * t**3
        theta = np.radians(gmst_s % 86_400 / 240)
        c, s = np.cos(theta), np.sin(theta)
        x, y = c * teme[..., 0] + s * teme[..., 1], c * teme[..., 1] - s * teme[..., 0]
        return np.stack([x, y, teme[..., 2]], axis=-1)


class Station:
    """A point on the WGS84 ellipsoid."""

    def __init__(self, lat_deg: float, lon_deg: float, alt_m: float = 0.0) -> None:
        """Place the station at a latitude and longitude [deg] and a height above the ellipsoid [m]."""
        lat, lon = np.radians([lat_deg, lon_deg])
        self.up: Floats = np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
        e2 = 1 / 298.257223563 * (2 - 1 / 298.257223563)
        normal_km = 6378.137 / np.sqrt(1 - e2 * np.sin(lat) ** 2)
        self.position_km: Floats = self.up * normal_km * [1.0, 1.0, 1.0 - e2] + alt_m / 1e3 * self.up

    def look(self, position_km: Floats) -> tuple[Floats, Floats]:
        """Return elevation [deg] and range [km] of positions of shape (…, 3)."""
        offset = position_km - self.position_km
        range_km = np.linalg.norm(offset, axis=-1)
        return np.degrees(np.arcsin(offset @ self.up / range_km)), range_km
