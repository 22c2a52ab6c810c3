"""Rows to train on and to score: features, what came, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.predict.clock import find_clock
from bentpipe.predict.features import FeatureSpec, SlotClock, features_table
from bentpipe.predict.levels import LEVELS
from bentpipe.predict.signals import STEP_S, Session, Signal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bentpipe.predict.horizons import Horizon

    Floats = NDArray[np.float64]

WINDOWS_S = (5.0, 15.0, 30.0, 60.0, 300.0)
LEARN_S = 1800.0
"""Time for which a terminal is followed before its own clock counts [s]; chosen here."""


@dataclass(frozen=True)
class Rows:
    """Rows of one or more signals.

    Attributes:
        features: Shape (n, columns).
        target: Prediction that would have been right: relative to the reference where the features are, shape (n,).
        actual: The value that came, in the signal's unit, shape (n,).
        reference: References, in the signal's unit, shape (n,).
        t_s: Times of the steps [s], shape (n,).
        block: Number of the stretch that a row belongs to, shape (n,).
    """

    features: Floats
    target: Floats
    actual: Floats
    reference: Floats
    t_s: Floats
    block: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.t_s)

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """Return the rows of a mask, shape (n,)."""
        return Rows(*(each[mask] for each in vars(self).values()))


def feature_spec(name: str, clock: SlotClock | None, floor: float = 0.0) -> FeatureSpec:
    """Return the features of a signal: 15 lags, means, windows up to 300 s, and slots where there is a clock."""
    return FeatureSpec(
        step_s=STEP_S,
        lags=15,
        windows_s=WINDOWS_S,
        ewma=(0.5,),
        slot=clock,
        earlier_slots=0 if clock is None else 4,
        floor=floor,
        relative=True,
        reference_s=0.0 if name != "goodput_mbps" else 15.0,
    )


def to_values(predictions: Floats, reference: Floats, spec: FeatureSpec) -> Floats:
    """Return predictions in the signal's unit; `predictions` has shape (n,) or (n, levels), `reference` (n,)."""
    if not spec.relative:
        return predictions
    base = reference + spec.floor
    with np.errstate(over="ignore"):
        return np.exp(predictions) * (base if predictions.ndim == 1 else base[:, None]) - spec.floor


def quantiles_of(estimator: Any, rows: Floats) -> Floats:  # noqa: ANN401 - any estimator
    """Return the quantiles of rows, shape (n, levels); NaN where a row has no history yet."""
    known = np.isfinite(rows).all(axis=1)
    result = np.full((len(rows), len(LEVELS)), np.nan)
    if known.any():
        result[known] = estimator.predict_quantiles(rows[known])
    return result


def make_rows(signal: Signal, spec: FeatureSpec, horizon: Horizon, own: SlotClock | None = None) -> Rows:
    """Return the rows of a signal whose history is long enough and whose target is known.

    Args:
        signal: The signal.
        spec: Features.
        horizon: What is predicted.
        own: The signal's own clock, if `spec` has a clock: used from `LEARN_S` after the signal's begin on.
    """
    parts = []
    for number, session in enumerate(signal.sessions):
        rows, ready, reference = _features(signal, session, spec, own)
        actual = horizon.targets(session, spec.step_s)
        keep = ready & np.isfinite(actual)
        base = reference[keep] + spec.floor
        came = actual[keep]
        with np.errstate(divide="ignore"):
            target = np.log((came + spec.floor) / base) if spec.relative else came
        parts.append((rows[keep], target, came, reference[keep], session.t_s[keep], np.full(len(came), number)))
    columns = [np.concatenate([part[i] for part in parts]) for i in range(6)]
    made = Rows(*columns)
    return made.where(np.isfinite(made.target))


def _features(
    signal: Signal, session: Session, spec: FeatureSpec, own: SlotClock | None
) -> tuple[Floats, NDArray[np.bool_], Floats]:
    values = session.values
    if spec.relative and spec.floor == 0.0:
        values = np.where(values > 0, values, np.nan)  # no ratio to nothing
    rows, ready, reference = features_table(spec, session.t_s, values)
    if spec.slot is not None and own is not None and own != spec.slot:
        later = session.t_s >= signal.span[0] + LEARN_S
        if later.any():
            rows[later] = features_table(spec.model_copy(update={"slot": own}), session.t_s, values)[0][later]
    return rows, ready, reference


def own_clock(signal: Signal) -> SlotClock | None:
    """Return the clock that the first `LEARN_S` of a signal show; None: none."""
    end = signal.span[0] + LEARN_S
    sessions = tuple(
        Session(each.t_s[each.t_s < end], each.values[each.t_s < end]) for each in signal.sessions if each.t_s[0] < end
    )
    return find_clock([Signal(signal.name, signal.source, sessions, signal.clock_known)]) if sessions else None


def concatenate(parts: Sequence[Rows]) -> Rows:
    """Return all rows in sequence."""
    return Rows(*(np.concatenate([vars(part)[name] for part in parts]) for name in vars(parts[0])))
