"""Two-line elements of the built-in shells, for comparison with independent programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bentpipe._native import Satellites

#: Days from 1949-12-31, from which `sgp4init` counts, to 1970-01-01.
_UNIX_EPOCH_DAYS = 7306.0


def two_line_elements(satellites: Satellites, first: int = 1) -> list[str]:
    """Return lines 1 and 2 of each satellite, in order, numbered from `first`."""
    from sgp4.api import WGS72, Satrec
    from sgp4.exporter import export_tle

    columns = satellites.elements()
    lines: list[str] = []
    for i in range(len(satellites)):
        record = Satrec()
        angles = [
            float(np.radians(columns[name][i]))
            for name in ("arg_perigee_deg", "inclination_deg", "mean_anomaly_deg", "raan_deg")
        ]
        record.sgp4init(
            WGS72,
            "i",
            first + i,
            float(columns["epoch_unix_ns"][i]) / 86_400e9 + _UNIX_EPOCH_DAYS,
            float(columns["bstar_per_er"][i]),
            0.0,
            0.0,
            float(columns["eccentricity"][i]),
            *angles[:3],
            float(columns["mean_motion_rev_day"][i]) * 2.0 * np.pi / 1440.0,
            angles[3],
        )
        record.classification = "U"
        lines += export_tle(record)
    return lines
