"""The elements that answers go by: of the days of what was measured, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bentpipe.errors import UserError
from bentpipe.orbit import Satellites, load_satellites
from bentpipe.times import format_utc

#: Elements farther from what was measured name nobody [days]. Starlink's were off by a median of 15.5 km after one day
#: and of 166 km after seven (9 May 2026): after five, at 550 km, more than the 6 degrees that a match may be off.
#: From one day on there is a warning (`bentpipe.orbit.StaleElementsWarning`).
MOST_DAYS = 5.0
_DAY_NS = 86_400 * 10**9


def load_elements(path: Path, at_unix_ns: int) -> Satellites:
    """The satellites of a file of elements for what was measured around `at_unix_ns` [ns since 1970].

    Raises:
        UserError: Half of them or more are farther than `MOST_DAYS` from it, or see `bentpipe.orbit.load_satellites`.
    """
    satellites = load_satellites(path, None, at_unix_ns)
    epochs = np.asarray(satellites.elements()["epoch_unix_ns"])
    days = float(np.median(np.abs(epochs - at_unix_ns))) / _DAY_NS
    if days > MOST_DAYS:
        raise UserError(
            f"{path}: its elements are {days:,.1f} days (median) from what was measured, at "
            f"{format_utc(at_unix_ns // 10**9 * 10**9)}; wanted {MOST_DAYS:g} days at most, and of the day to be right"
        )
    return satellites
