"""Scores of models on rows that training never saw, beside holding the last value."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.errors import UserError
from bentpipe.predict.clock import find_clock
from bentpipe.predict.conformal import with_margins
from bentpipe.predict.dataset import Rows, concatenate, feature_spec, make_rows, own_clock, to_values
from bentpipe.predict.levels import LEVELS
from bentpipe.predict.registry import DEFAULT_MODELS, find_model, make_model
from bentpipe.predict.signals import LONGEST_GAP_S, THROUGHPUT, Session, Signal, join

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from bentpipe.predict.features import FeatureSpec, SlotClock
    from bentpipe.predict.horizons import Horizon

    Floats = NDArray[np.float64]

TRAIN_SHARE = 0.7
"""Share of each file, from its begin, that trains where no file is given to test on."""

LEAST_ROWS = 200
"""Fewest rows to train on; chosen here: 13 slots."""

LEAST_TESTED = 30
"""Fewest rows to score."""


@dataclass(frozen=True)
class Score:
    """Scores of a model on a file.

    Attributes:
        data: The file.
        target: ``latency`` or ``throughput``.
        horizon: As `parse_horizon` reads it.
        model: Its name.
        mape: Mean of |error| / value [%]; of throughput only where the value is above a tenth of the file's median.
        rmse: Root of the mean squared error, in the signal's unit.
        within_5, within_10: Share of those rows with an error of at most 5 and 10 % [%].
        crps: Continuous ranked probability score from the quantiles, in the signal's unit.
        coverage_90: Share of rows within the 90 % interval with its online margins [%].
        n: Number of rows.
    """

    data: str
    target: str
    horizon: str
    model: str
    mape: float
    rmse: float
    within_5: float
    within_10: float
    crps: float
    coverage_90: float
    n: int

    def to_dict(self) -> dict[str, Any]:
        """Return the row that ``predict score --json`` prints."""
        return asdict(self)


@dataclass(frozen=True)
class Fitted:
    """A model with what it was trained on.

    Attributes:
        model: Its name.
        estimator: The fitted estimator.
        spec: Its features.
        horizon: Its horizon.
        signal: Name of the signal.
        rows: Number of rows.
        span_s: First and last time of the training data [s].
        files: Names of the files.
    """

    model: str
    estimator: Any
    spec: FeatureSpec
    horizon: Horizon
    signal: str
    rows: int
    span_s: tuple[float, float]
    files: tuple[str, ...]


def train(signals: Sequence[Signal], model: str, horizon: Horizon) -> Fitted:
    """Train a model on whole signals.

    Raises:
        UserError: Signals of two kinds, too few rows, constant values, or an unknown model.
    """
    return fit(signals, [model], horizon)[0]


def fit(
    signals: Sequence[Signal],
    models: Sequence[str],
    horizon: Horizon,
    *,
    has_slots: bool = True,
    on_progress: Callable[[float], None] = lambda _: None,
) -> list[Fitted]:
    """Train several models on the same rows; every file has the same weight. Raises as `train`.

    Features of slots need the time of the day in every signal, and `has_slots`: that the models are used on such alone.
    """
    name = join(signals)
    has_slots = has_slots and all(signal.clock_known for signal in signals)
    clocks = [find_clock([signal]) if has_slots else None for signal in signals]
    common = find_clock(signals) if has_slots else None
    common = common or next((clock for clock in clocks if clock is not None), None)
    floor = 0.0
    if name == THROUGHPUT:
        every = np.concatenate([session.values for signal in signals for session in signal.sessions])
        floor = float(f"{0.1 * max(float(np.nanmedian(every)), 0.01):.2g}")
    spec = feature_spec(name, common, floor)
    parts = [
        make_rows(signal, spec if common is None else spec.model_copy(update={"slot": own or common}), horizon)
        for signal, own in zip(signals, clocks, strict=True)
    ]
    _check(signals, parts, horizon)
    rows = concatenate([part for part in parts if len(part)])
    weight = np.concatenate([np.full(len(part), 1 / len(part)) for part in parts if len(part)])
    weight *= len(weight) / weight.sum()
    fitted = []
    for number, model in enumerate(models):
        on_progress(number / len(models))
        estimator = make_model(model, spec, horizon)
        weights = {"sample_weight": weight} if model in ("xgboost", "ensemble") else {}
        estimator.fit(rows.features, rows.target, **weights)
        span = min(signal.span[0] for signal in signals), max(signal.span[1] for signal in signals)
        files = tuple(signal.source for signal in signals)
        fitted.append(Fitted(model, estimator, spec, horizon, name, len(rows), span, files))
    return fitted


def _check(signals: Sequence[Signal], parts: Sequence[Rows], horizon: Horizon) -> None:
    where = ", ".join(signal.source for signal in signals[:3])
    values = np.concatenate([session.values for signal in signals for session in signal.sessions])
    values = values[np.isfinite(values)]
    if len(values) and values.max() == values.min():
        raise UserError(f"every sample is {values[0]:g}", where=where, expected="a signal that changes")
    count = sum(len(part) for part in parts)
    if count < LEAST_ROWS:
        raise UserError(
            f"too little data: {count} seconds to train on, with 15 s of history before and a sample {horizon} later",
            where=where,
            expected=f"{LEAST_ROWS} or more, without gaps",
            hint="a longer measurement, or a shorter horizon",
        )


def split(signal: Signal, share: float = TRAIN_SHARE) -> tuple[Signal, Signal]:
    """Split a signal at a time: the first `share` of it, and the rest from 30 s later on."""
    first, last = signal.span
    at = first + share * (last - first)
    before = [Session(each.t_s[each.t_s < at], each.values[each.t_s < at]) for each in signal.sessions]
    later = at + LONGEST_GAP_S
    after = [Session(each.t_s[each.t_s >= later], each.values[each.t_s >= later]) for each in signal.sessions]
    return tuple(replace(signal, sessions=tuple(s for s in part if len(s.t_s) > 1)) for part in (before, after))  # type: ignore[return-value]


def score(
    data: Sequence[Signal],
    horizons: Sequence[Horizon],
    models: Sequence[str] = DEFAULT_MODELS,
    test: Sequence[Signal] = (),
    on_progress: Callable[[float], None] = lambda _: None,
) -> list[Score]:
    """Score models on later rows than those that they were trained on; hold is always among them.

    Args:
        data: Signals to train on; without `test` the last 30 % of each is scored.
        horizons: What is predicted.
        models: Names of models.
        test: Signals to score on, of which nothing is trained.
        on_progress: Called with the share that is done.

    Raises:
        UserError: As `train`, or no signal has enough rows to score.
    """
    names = list(dict.fromkeys(["hold", *models]))
    for name in names:
        find_model(name)
    if test:
        join([*data, *test])
        training, tested = list(data), list(test)
    else:
        pairs = [split(signal) for signal in data]
        training, tested = [before for before, _ in pairs if before.sessions], [after for _, after in pairs]
        if not training:
            raise UserError("too little data", where=data[0].source, expected=f"{LEAST_ROWS} samples or more")
    clocks = [own_clock(signal) if signal.sessions else None for signal in tested]
    scores: list[Score] = []
    for number, horizon in enumerate(horizons):
        fitted = fit(
            training,
            names,
            horizon,
            has_slots=all(signal.clock_known for signal in tested),
            on_progress=lambda done, n=number: on_progress((n + 0.8 * done) / len(horizons)),  # type: ignore[misc]
        )
        on_progress((number + 0.8) / len(horizons))
        for signal, clock in zip(tested, clocks, strict=True):
            scores += _scores(signal, clock, fitted)
        on_progress((number + 1) / len(horizons))
    if not scores:
        raise UserError(
            "too little data to score",
            where=tested[0].source,
            expected=f"{LEAST_TESTED} samples or more after a history",
        )
    return scores


def _scores(signal: Signal, clock: SlotClock | None, fitted: Sequence[Fitted]) -> list[Score]:
    spec, horizon = fitted[0].spec, fitted[0].horizon
    if not signal.sessions:
        return []
    rows = make_rows(signal, spec, horizon, clock)
    if len(rows) < LEAST_TESTED:
        return []
    return [_score(signal, rows, each) for each in fitted]


def _score(signal: Signal, rows: Rows, fitted: Fitted) -> Score:
    spec = fitted.spec
    point = to_values(fitted.estimator.predict(rows.features), rows.reference, spec)
    raw = fitted.estimator.predict_quantiles(rows.features)
    delay = fitted.horizon.steps(spec.step_s)
    quantiles = to_values(with_margins(raw, rows.target, delay), rows.reference, spec)
    errors = np.abs(point - rows.actual)
    least = float(np.median(rows.actual)) / 10 if signal.name == THROUGHPUT else 0.0
    counted = rows.actual > least
    relative = errors[counted] / rows.actual[counted]
    inside = (rows.actual >= quantiles[:, 0]) & (rows.actual <= quantiles[:, -1])
    return Score(
        data=signal.source,
        target=signal.target,
        horizon=str(fitted.horizon),
        model=fitted.model,
        mape=100 * float(relative.mean()) if counted.any() else float("nan"),
        rmse=float(np.sqrt((errors**2).mean())),
        within_5=100 * float((relative <= 0.05).mean()) if counted.any() else float("nan"),
        within_10=100 * float((relative <= 0.1).mean()) if counted.any() else float("nan"),
        crps=crps(quantiles, rows.actual),
        coverage_90=100 * float(inside.mean()),
        n=len(rows),
    )


def crps(quantiles: Floats, actual: Floats) -> float:
    """Return the mean CRPS: twice the integral of the pinball loss over the levels (trapezoids; flat at the ends).

    Args:
        quantiles: Shape (n, levels).
        actual: Shape (n,).

    Example:
        >>> round(crps(np.zeros((1, len(LEVELS))), np.array([2.0])), 3)
        2.0
    """
    levels = np.array(LEVELS)
    excess = actual[:, None] - quantiles
    loss = np.maximum(levels * excess, (levels - 1) * excess).mean(axis=0)
    inner = float(((loss[1:] + loss[:-1]) / 2 * np.diff(levels)).sum())
    return 2 * (inner + float(loss[0]) * LEVELS[0] + float(loss[-1]) * (1 - LEVELS[-1]))
