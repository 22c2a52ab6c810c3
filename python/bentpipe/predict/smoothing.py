"""Running means: how a terminal's own latency follows from pings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError
from bentpipe.predict.signals import Session, Signal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LagWeights:
    """Least squares of one signal on the lags of another.

    Attributes:
        weights: Weight of the sample k steps ago, shape (lags,).
        explained: Share of the variance that they explain, 0 to 1.
        n: Number of rows.
    """

    weights: Floats
    explained: float
    n: int


def running_mean(signal: Signal, steps: int) -> Signal:
    """Return the mean of each sample and the `steps` - 1 before it; NaN where one is missing.

    Example:
        >>> signal = Signal("ping_rtt_ms", "p", (Session(np.arange(4.0), np.array([1.0, 3, 5, np.nan])),))
        >>> running_mean(signal, 2).sessions[0].values.tolist()
        [2.0, 4.0, nan]
    """
    sessions = tuple(
        Session(each.t_s[steps - 1 :], np.lib.stride_tricks.sliding_window_view(each.values, steps).mean(axis=1))
        for each in signal.sessions
        if len(each.values) > steps
    )
    return replace(signal, sessions=sessions)


def lag_weights(smooth: Signal, pings: Signal, lags: int = 25) -> LagWeights:
    """Return the weights of `pings` at lags 0 to `lags` - 1 that give `smooth`, with a constant.

    Raises:
        UserError: Fewer than four rows a lag without a missing sample, or a constant signal.
    """
    rows, values = [], []
    times = np.concatenate([each.t_s for each in smooth.sessions])
    came = np.concatenate([each.values for each in smooth.sessions])
    for session in pings.sessions:
        place = np.round(times - session.t_s[0]).astype(np.int64)
        for at in np.flatnonzero((place >= lags - 1) & (place < len(session.values)) & np.isfinite(came)):
            window = session.values[place[at] - lags + 1 : place[at] + 1]
            if np.isfinite(window).all():
                rows.append(window[::-1])
                values.append(came[at])
    expected = f"{4 * lags} samples or more of both signals at the same times, which change"
    if len(rows) < 4 * lags or np.ptp(values) == 0:
        raise UserError(f"{len(rows)} common samples", where=f"{smooth.source}, {pings.source}", expected=expected)
    target = np.array(values)
    columns = np.column_stack([np.array(rows), np.ones(len(rows))])
    weights = np.linalg.lstsq(columns, target, rcond=None)[0]
    rest = float(((target - columns @ weights) ** 2).sum() / ((target - target.mean()) ** 2).sum())
    return LagWeights(weights[:-1], 1 - rest, len(rows))
