"""Rates to come, as the tables that a player plans with: what will be, and forecasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError
from bentpipe.experiments.videos import Outlook
from bentpipe.predict.horizons import Horizon
from bentpipe.predict.levels import LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from bentpipe.execution.video_traces import Window
    from bentpipe.predict.score import Fitted
    from bentpipe.predict.signals import Signal

    Floats = NDArray[np.float64]

HORIZONS_S = (5.0, 15.0, 30.0)
"""Lengths of the means that are predicted [s]: a plan of five chunks of 4 s takes 20 s."""

PLANNED_LEVELS = (0.3, 0.5, 0.7, 0.9)
"""Levels of the scenarios. Chosen on drives: lower ones make the player as careful as RobustMPC."""


def known(window: Window) -> Outlook:
    """Return the capacity that a window will have."""
    mbps = np.concatenate([window.mbps, window.mbps])
    ends = np.arange(1, len(mbps) + 1, dtype=np.float64)
    return Outlook(
        made_s=(0.0,),
        horizons_s=tuple(ends.tolist()),
        levels=(0.5,),
        rates_bps=tuple((np.cumsum(mbps) * 1e6 / ends).tolist()),
    )


def train(
    traces: Sequence[Signal],
    model: str,
    on_progress: Callable[[float], object] = lambda _: None,
    *,
    has_slots: bool = True,
) -> list[Fitted]:
    """Train a predictor for each of `HORIZONS_S`. Raises `UserError`: too little data, or an unknown model.

    Args:
        traces: Traces to train on.
        model: Name of the predictor.
        on_progress: Called with the share done.
        has_slots: Whether the traces that are forecast have the time of the day.
    """
    from bentpipe.predict.score import fit

    trained = []
    for number, length_s in enumerate(HORIZONS_S):
        trained += fit(traces, [model], Horizon(length_s, is_mean=True), has_slots=has_slots)
        on_progress((number + 1) / len(HORIZONS_S))
    return trained


def forecast(window: Window, trained: Sequence[Fitted]) -> Outlook:
    """Return the forecasts that are made at each second of a window, each from the seconds before it.

    Where these are all missing, as after a long gap, nothing is expected.

    Raises:
        UserError: The window has no history.
    """
    from bentpipe.predict.dataset import quantiles_of, to_values
    from bentpipe.predict.features import features_table

    if window.first == 0:
        raise UserError("begins with its trace, so there is no past", where=window.trace, expected="a longer trace")
    count = len(window.mbps)
    begin = max(0, window.first - 360)  # the longest window of a feature is 300 s
    used = slice(begin, window.first + count - 1)
    places = [LEVELS.index(level) for level in PLANNED_LEVELS]
    spec = trained[0].spec
    values = window.session.values[used]
    if spec.floor == 0.0:
        values = np.where(values > 0, values, np.nan)
    rows, _, reference = features_table(spec, window.session.t_s[used], values)
    rows, reference = rows[-count:], reference[-count:]
    tables = [to_values(quantiles_of(each.estimator, rows), reference, spec)[:, places] for each in trained]
    rates = np.nan_to_num(np.stack(tables, axis=1)).clip(0.0, 1e6) * window.scale * 1e6
    return Outlook(
        made_s=tuple(map(float, range(count))),
        horizons_s=HORIZONS_S,
        levels=PLANNED_LEVELS,
        rates_bps=tuple(rates.ravel().tolist()),
    )
