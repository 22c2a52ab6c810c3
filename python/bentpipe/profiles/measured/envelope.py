"""Estimate the capacity of a path from one transfer: its throughput in bins in which the sender was not limited.

Goodput over a tenth of a second depends on the application: reads come in bursts, and during loss recovery there are
none. Means over a second or more depend on the path, except in bins in which the sender was limited: by its start-up
phase, by a stall, or by the recovery after a stall. There the throughput of the neighbouring bins is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.profiles.build import Points

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

#: Smallest length of a bin [s], which averages a receiver's bursts. Chosen here: several RTTs.
BIN_S = 1.0
#: Rows of at least this share of a bin are a bin; chosen here: programs end an interval some milliseconds early.
NEARLY = 0.95
#: The sender was limited in a bin with less than this share of the largest one at most `AROUND` bins away; chosen here:
#: capacity falls to half within seconds (satellites change), hardly to a quarter and back.
LIMITED, AROUND = 0.25, 2


def envelope(series: Points, end_s: float) -> Points | None:
    """Return the capacity [bit/s] that a transfer indicates; None if its throughput was always 0.

    Args:
        series: Throughput [bit/s]; not valid where it was not measured.
        end_s: End of the measurement [s], on the clock of the series.
    """
    begin, end, mean = _bins(series, end_s)
    limited = _limited(mean)
    if limited.all():
        return None
    centre = (begin + end) / 2
    value = np.where(limited, np.interp(centre, centre[~limited], mean[~limited]), mean)
    # A bin that no other follows ends with a gap.
    gap = np.append(begin[1:] > end[:-1], end_s > end[-1])
    t = np.concatenate([begin, end[gap]])
    order = np.argsort(t, kind="stable")
    valid = np.concatenate([np.ones(begin.size, bool), np.zeros(int(gap.sum()), bool)])
    return Points.of(t[order], np.concatenate([value, value[gap]])[order], valid[order])


def _bins(series: Points, end_s: float) -> tuple[Floats, Floats, Floats]:
    """Return begin [s], end [s] and mean [bit/s] of bins of at least `BIN_S` within contiguous measurements."""
    ends = np.append(series.t_s[1:], max(end_s, float(series.t_s[-1])))
    rows = zip(series.t_s.tolist(), ends.tolist(), series.value.tolist(), series.valid.tolist(), strict=True)
    bins: list[list[float]] = []  # begin, end, bits
    filling = False
    for begin_s, row_end_s, value, valid in rows:
        if not valid or row_end_s <= begin_s:
            filling = filling and valid
            continue
        bits = value * (row_end_s - begin_s)
        if filling:
            bins[-1][1:] = [row_end_s, bins[-1][2] + bits]
        else:
            bins.append([begin_s, row_end_s, bits])
        filling = bins[-1][1] - bins[-1][0] < NEARLY * BIN_S
    whole: list[list[float]] = []
    for one in bins:
        # The remainder of a contiguous measurement is too short for its own bin.
        if one[1] - one[0] < NEARLY * BIN_S and whole and whole[-1][1] == one[0]:
            whole[-1][1:] = [one[1], whole[-1][2] + one[2]]
        else:
            whole.append(one)
    table = np.array(whole, np.float64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2] / (table[:, 1] - table[:, 0])


def _limited(mean: Floats) -> Mask:
    """Return whether the sender was limited in each bin: stalls, start-up, and the rise after either."""
    if not mean.size:
        return np.zeros(0, bool)
    around = np.lib.stride_tricks.sliding_window_view(np.pad(mean, AROUND), 2 * AROUND + 1).max(1)
    limited: Mask = (mean <= 0) | (mean < LIMITED * around)
    # Extend each until throughput no longer rises. A fall before a stall may be due to the path and is not extended.
    for place in np.flatnonzero(limited[:-1] & ~limited[1:]):
        after = int(place) + 1
        while after + 1 < mean.size and mean[after + 1] > mean[after] and not limited[after]:
            limited[after] = True
            after += 1
    return limited
