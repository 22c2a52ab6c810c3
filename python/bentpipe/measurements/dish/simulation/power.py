"""Power input of a simulated terminal, second by second."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bentpipe.measurements.dish.simulation.pings import uniform

#: Mean [W]. Chosen here: the middle of the 75 to 100 W of the Standard terminal's data sheet.
MEAN_W = 87.0
#: Relative variation from second to second, and over `SLOW_S`. Together they have a standard
#: deviation of 15 % and an autocorrelation of 0.6 at 1 s. A terminal on a car has 20 % between its quartiles and the
#: median, and 0.76 (sys-uos/Starlink-on-the-Road, power.csv, with values that last 3 s).
FAST, SLOW = 0.15, 0.25
#: Time between the points of the slow part [s]. Chosen here.
SLOW_S = 10
#: Streams of random numbers, beside those of the pings.
_FAST_STREAM, _SLOW_STREAM = 4094, 4095


def power_w(seconds: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    """Return the power [W] in seconds since the Profile's first start; it depends only on seed and second."""
    place, within = np.divmod(seconds, SLOW_S)
    before, after = (uniform(place + step, seed * 4096 + _SLOW_STREAM) for step in (0, 1))
    slow = before + (after - before) * within / SLOW_S
    fast = uniform(seconds, seed * 4096 + _FAST_STREAM)
    return MEAN_W * (1.0 + FAST * (2.0 * fast - 1.0) + SLOW * (2.0 * slow - 1.0))
