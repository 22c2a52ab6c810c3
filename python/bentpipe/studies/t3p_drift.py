"""How soon the drift alarm notices errors that rise, and how often it is wrong: part of `t3p_predictors`.

A model is trained on the first 70 % of a file and follows the rest. Its errors there, as they are, should raise no
alarm; multiplied from some time on, one, soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError
from bentpipe.predict.arrays import native_model, to_arrays
from bentpipe.predict.drift import DriftAlarm
from bentpipe.predict.forecaster import Forecaster
from bentpipe.predict.horizons import parse_horizon
from bentpipe.predict.score import split, train
from bentpipe.predict.store import StoredModel, record_of
from bentpipe.studies.study import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bentpipe.predict.signals import Signal

    Floats = NDArray[np.float64]

MODEL, HORIZON = "ols-phase", "5s"
FACTORS = (1.5, 2.0)
STARTS = 10
"""Times at which errors begin to be multiplied, evenly over the second quarter of the errors."""

LEAST_ERRORS = 1200
"""Fewest errors of a file: twenty minutes."""

_OURS = "not in the paper"


def drift_rows(signals: Sequence[Signal], world: str) -> list[Row]:
    """Return alarms per hour without a change, and the time until one with errors multiplied; [] for short files."""
    known = {signal.source: errors for signal in signals if len(errors := _errors(signal)) >= LEAST_ERRORS}
    if not known:
        return []
    hours = sum(map(len, known.values())) / 3600
    alarms = sum(len(_alarms(errors)) for errors in known.values())
    basis = f"{world}: {', '.join(known)}; {MODEL} at {HORIZON}, trained on the first 70 %"
    quantity = "drift alarm: alarms without a change"
    rows = [Row(quantity, "1/h", None, alarms / hours, _OURS, f"{basis}; {alarms} in {hours:.1f} h")]
    for factor in FACTORS:
        delays = [delay for errors in known.values() for delay in _delays(errors, factor)]
        noticed = [delay for delay in delays if delay is not None]
        text = f"{basis}; {len(noticed)} of {len(delays)} noticed"
        value = float(np.median(noticed)) / 60 if noticed else None
        rows.append(Row(f"drift alarm: time until errors × {factor:g} are noticed", "min", None, value, _OURS, text))
    return rows


def _errors(signal: Signal) -> Floats:
    """Return the sizes of the errors of a model's medians after its training, in order."""
    before, after = split(signal)
    try:
        fitted = train([before], MODEL, parse_horizon(HORIZON))
    except UserError:
        return np.empty(0)
    forecaster = Forecaster(StoredModel(record_of(fitted), native_model(to_arrays(fitted.estimator)), MODEL))
    errors = []
    for session in after.sessions:
        for t_s, value in zip(session.t_s.tolist(), session.values.tolist(), strict=True):
            forecaster.push(t_s, value)
            if forecaster.error is not None:
                errors.append(forecaster.error)
            forecaster.error = None
    return np.array(errors)


def _alarms(errors: Floats) -> list[int]:
    alarm = DriftAlarm()
    return [number for number, error in enumerate(errors) if alarm.add(float(error)) is not None]


def _delays(errors: Floats, factor: float) -> list[int | None]:
    """Return the outcomes from each begin of a rise to the first alarm after it; None: none came."""
    delays = []
    for start in np.linspace(len(errors) / 4, len(errors) / 2, STARTS).astype(int).tolist():
        changed = errors.copy()
        changed[start:] *= factor
        later = [number - start for number in _alarms(changed) if number >= start]
        delays.append(later[0] if later else None)
    return delays
