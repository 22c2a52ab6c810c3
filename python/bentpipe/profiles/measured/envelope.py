"""What a path could carry, from what one transfer achieved: the throughput of bins in which its sender was not limited.

The goodput of a tenth of a second is the application's: reads come in bursts, and while TCP recovers a loss none come.
Means over a second or more are the path's, but for bins in which the sender was limited: by its start, by a stall, or
by the recovery after one. There the neighbours' throughput counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.profiles.build import Points

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

#: Length of a bin, at least [s]: over this a receiver's bursts even out. Chosen here: several RTTs.
BIN_S = 1.0
#: Rows that lack so little of a bin are one; chosen here: programs end an interval some milliseconds early.
NEARLY = 0.95
#: The sender was limited in a bin with less than this share of the largest one at most `AROUND` bins away; chosen here:
#: capacity falls to half within seconds (satellites change), hardly to a quarter and back.
LIMITED, AROUND = 0.25, 2


def envelope(series: Points, end_s: float) -> Points | None:
    """The capacity that a transfer showed; None: it carried nothing at all.

    Args:
        series: What it achieved [bit/s]; not valid where it was not measured.
        end_s: When its measurement ends [s], on the clock of the series.
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
    """Begin, end and mean of bins that are as long as `BIN_S`, where what was measured at a stretch is."""
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
        # The rest of a stretch is too short for a bin of its own.
        if one[1] - one[0] < NEARLY * BIN_S and whole and whole[-1][1] == one[0]:
            whole[-1][1:] = [one[1], whole[-1][2] + one[2]]
        else:
            whole.append(one)
    table = np.array(whole, np.float64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2] / (table[:, 1] - table[:, 0])


def _limited(mean: Floats) -> Mask:
    """In which bins the sender was limited: stalls, starts, and the rise that follows either."""
    if not mean.size:
        return np.zeros(0, bool)
    around = np.lib.stride_tricks.sliding_window_view(np.pad(mean, AROUND), 2 * AROUND + 1).max(1)
    limited: Mask = (mean <= 0) | (mean < LIMITED * around)
    # Until throughput no longer rises; in reverse order would be the fall before a stall, which the path may have made.
    for place in np.flatnonzero(limited[:-1] & ~limited[1:]):
        after = int(place) + 1
        while after + 1 < mean.size and mean[after + 1] > mean[after] and not limited[after]:
            limited[after] = True
            after += 1
    return limited
