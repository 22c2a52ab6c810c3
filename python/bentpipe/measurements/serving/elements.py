"""Load orbital elements whose epochs are close enough to the measurement."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bentpipe._native import Satellites
from bentpipe.errors import UserError
from bentpipe.orbits.elements import load_satellites
from bentpipe.times import format_utc

#: Elements farther from the measurement identify no satellite [days]. Starlink's were off by a median of 15.5 km after
#: one day and of 166 km after seven (9 May 2026): after five, at 550 km, more than the 6 degrees that a match may be
#: off. From one day on there is a warning (`bentpipe.orbit.StaleElementsWarning`).
MAX_DAYS = 5.0
_DAY_NS = 86_400 * 10**9


def load_elements(path: Path, measured_unix_ns: ArrayLike) -> tuple[Satellites, NDArray[np.bool_]]:
    """Load the satellites of a file of elements, and check which measurement times they are valid for.

    If a satellite has several element sets, the one nearest to the middle time is used.

    Args:
        path: The file.
        measured_unix_ns: Measurement times [ns since 1970], at least one; shape (n,).

    Returns:
        The satellites, and for each time whether it is within `MAX_DAYS` of the elements (their median).

    Raises:
        UserError: No time is, or as `bentpipe.orbit.load_satellites`.
    """
    times_unix_ns = np.asarray(measured_unix_ns, dtype=np.int64)
    middle = int(times_unix_ns[times_unix_ns.size // 2])
    satellites = load_satellites(path, None, middle)
    epochs = np.asarray(satellites.elements()["epoch_unix_ns"])
    days = np.abs(times_unix_ns - int(np.median(epochs))) / _DAY_NS
    near: NDArray[np.bool_] = days <= MAX_DAYS
    if not near.any():
        nearest = int(times_unix_ns[int(days.argmin())])
        raise UserError(
            f"{path}: its elements are {days.min():,.1f} days (median) from the measurement, at "
            f"{format_utc(nearest // 10**9 * 10**9)}; expected {MAX_DAYS:g} days at most, best less than one"
        )
    return satellites, near
