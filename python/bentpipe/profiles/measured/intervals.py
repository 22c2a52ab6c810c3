"""Intervals of time, applied to series."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.profiles.build import Points

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Intervals = NDArray[np.int64]


def inside(times: NDArray[np.int64], intervals: Intervals) -> NDArray[np.bool_]:
    """Return whether each time lies in an interval [begin, end); `intervals` has the shape (m, 2)."""
    begun = np.searchsorted(np.sort(intervals[:, 0]), times, side="right")
    ended = np.searchsorted(np.sort(intervals[:, 1]), times, side="right")
    within: NDArray[np.bool_] = begun > ended
    return within


def stepped(bad: Intervals, unknown: Intervals) -> Points:
    """Return a step series that is 1 in `bad`, else 0, and unknown in `unknown`; without times before 0."""
    times = np.unique(np.concatenate([[0], bad.ravel(), unknown.ravel()]))
    times = times[times >= 0]
    return Points.of(times / 1e9, inside(times, bad).astype(np.float64), ~inside(times, unknown))


def unknown_within(series: Points, unknown: Intervals) -> Points:
    """Mark a linear series as unknown within intervals, without changing its values."""
    if not len(unknown):
        return series
    own = np.round(series.t_s * 1e9).astype(np.int64)
    added = np.setdiff1d(unknown, own)
    times = np.concatenate([own, added[added > 0]])
    values = np.concatenate([series.value, np.interp(added[added > 0], own, series.value)])
    order = np.argsort(times, kind="stable")
    times = times[order]
    known = series.valid[np.maximum(np.searchsorted(own, times, side="right") - 1, 0)]
    return Points.of(times / 1e9, values[order], known & ~inside(times, unknown))


def lost_from(loss: Points | None, begin_s: float) -> Points:
    """Return a loss series with total loss from a time on; None: no loss before."""
    loss = loss or Points.constant(0.0)
    before = loss.t_s < begin_s
    return Points.of(
        np.append(loss.t_s[before], begin_s), np.append(loss.value[before], 1.0), np.append(loss.valid[before], True)
    )


def until(series: Points | None, end_s: float, *, linear: bool) -> Points | None:
    """Cut a series at `end_s`; a linear series gets its value there as last point."""
    if series is None or series.t_s[-1] <= end_s:
        return series
    before = series.t_s <= end_s
    t, value, valid = series.t_s[before], series.value[before], series.valid[before]
    if linear and t[-1] < end_s:
        t = np.append(t, end_s)
        value = np.append(value, np.interp(end_s, series.t_s, series.value))
        valid = np.append(valid, valid[-1])
    return Points.of(t, value, valid)
