"""A forecaster that notices when its model no longer fits the signal, and trains another on what it has seen since.

Training is from scratch: it takes seconds, and continued trees were no better (`docs/guides/predict.md`). The old model
forecasts until the new one has been better on outcomes that it was not trained on.
"""

from __future__ import annotations

import math
from collections import deque
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from bentpipe.errors import UserError
from bentpipe.predict.drift import LEAST_OUTCOMES, DriftAlarm
from bentpipe.predict.forecaster import Forecaster
from bentpipe.predict.signals import LONGEST_GAP_S, Signal, on_grid

if TYPE_CHECKING:
    from bentpipe.predict.forecaster import Forecast
    from bentpipe.predict.store import StoredModel

LONGEST_S = 40 * 3600.0
"""Time of samples that are kept to train on [s]."""

WAIT_S = 1800.0
"""Time from an alarm to the training [s]: the new model needs samples from after the change. Chosen here."""

TRIAL_S = 600.0
"""Newest samples that a new model is not trained on, and both are compared on, beside the horizon [s]."""

LEAST_TRIALS = 30
"""Fewest outcomes to compare two models on."""


@dataclass(frozen=True)
class Change:
    """What happened while a signal was followed.

    Attributes:
        at_s: When [s].
        kind: ``drift``: errors have risen; ``replaced`` or ``kept``: a new model is better, or not; ``untrained``: it
            could not be trained.
        before: Typical error before the rise; of the old model.
        after: Typical error since; of the new model.
        why: Reason, where it could not be trained.
    """

    at_s: float
    kind: Literal["drift", "replaced", "kept", "untrained"]
    before: float
    after: float
    why: str = ""

    def __str__(self) -> str:
        """Describe it in one line."""
        if self.kind == "drift":
            return f"drift: errors rose from {self.before:.2g} to {self.after:.2g}"
        if self.kind == "untrained":
            return f"a new model could not be trained: {self.why}"
        outcome = "replaces the old one" if self.kind == "replaced" else "is no better, and was dropped"
        return f"a new model {outcome}: error {self.after:.2g} against {self.before:.2g}"


class OnlineForecaster:
    """Follows a signal like `Forecaster`, with a drift alarm; with `retrains` it also replaces its model."""

    def __init__(self, model: StoredModel, *, retrains: bool, in_background: bool = True) -> None:
        """Begin without history. Raises `UserError`: a library is missing.

        Args:
            model: The model to begin with.
            retrains: Whether to train another model after an alarm.
            in_background: Train in a thread, while forecasts go on; else at once, so that replays are repeatable.
        """
        self.retrains = retrains
        #: Number of forecasts whose outcome is known.
        self.outcomes = 0
        self._forecaster = Forecaster(model)
        self._alarm = DriftAlarm()
        step_s = model.record.features.step_s
        self._samples: deque[tuple[float, float]] = deque(maxlen=round(LONGEST_S / step_s) * 4)
        #: Newest time that a new model is not trained on [s]; outcomes are known a horizon later.
        self._trial_s = TRIAL_S + model.horizon.length_s
        self._train_at_s: float | None = None
        self._executor: Executor | None = ThreadPoolExecutor(1, "retraining") if retrains and in_background else None
        self._training: Future[StoredModel] | None = None

    @property
    def model(self) -> StoredModel:
        """The model in use."""
        return self._forecaster.model

    def forecast(self) -> Forecast | None:
        """Return the newest forecast; None: there is too little history."""
        return self._forecaster.forecast()

    def push(self, t_s: float, value: float) -> list[Change]:
        """Add a sample as `Forecaster.push` does; return what has changed."""
        if not math.isfinite(t_s):
            return []
        if self._samples and t_s <= self._samples[-1][0]:
            if t_s >= self._samples[-1][0] - LONGEST_GAP_S:
                return []
            self._samples.clear()  # the clock was set back
            self._train_at_s = None
        self._samples.append((t_s, value))
        changes = []
        self._forecaster.push(t_s, value)
        error, self._forecaster.error = self._forecaster.error, None
        self.outcomes += error is not None
        drift = None if error is None else self._alarm.add(error)
        if drift is not None:
            changes.append(Change(t_s, "drift", drift.before, drift.after))
            if self.retrains and self._train_at_s is None and self._training is None:
                self._train_at_s = t_s + WAIT_S
        if self._train_at_s is not None and t_s >= self._train_at_s:
            self._train_at_s = None
            changes += self._retrain(t_s)
        elif self._training is not None and self._training.done():
            future, self._training = self._training, None
            changes.append(self._compare(t_s, future))
        return changes

    def end(self) -> list[Change]:
        """Return what was left undone at the end of a measurement: a training for which it was too short."""
        if self._train_at_s is None:
            return []
        last_s = self._samples[-1][0]
        seen_min = (last_s - self._train_at_s + WAIT_S) / 60
        why = f"the measurement ends {seen_min:.0f} min after the alarm; expected {WAIT_S / 60:.0f} min or more"
        return [Change(last_s, "untrained", math.nan, math.nan, why)]

    def close(self) -> None:
        """Give up a training that is under way."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _retrain(self, t_s: float) -> list[Change]:
        signal = self._signal(t_s - self._trial_s)
        old = self.model
        if self._executor is not None:
            self._training = self._executor.submit(_train, signal, old)
            return []
        future: Future[StoredModel] = Future()
        try:
            future.set_result(_train(signal, old))
        except (UserError, ValueError, ArithmeticError, MemoryError) as error:
            future.set_exception(error)
        return [self._compare(t_s, future)]

    def _signal(self, until_s: float) -> Signal:
        own = np.array([each for each in self._samples if each[0] < until_s]).reshape(-1, 2)
        record = self.model.record
        return Signal(record.signal, "what was followed", on_grid(own[:, 0], own[:, 1], record.features.step_s))

    def _compare(self, t_s: float, future: Future[StoredModel]) -> Change:
        """Replace the model if the new one is better on samples that neither was trained on."""
        try:
            new = future.result()
        except (UserError, ValueError, ArithmeticError, MemoryError) as error:  # NumPy's and XGBoost's are ValueErrors
            return Change(t_s, "untrained", math.nan, math.nan, str(error).partition("\n")[0])
        both = self.model, new
        floor = max(each.record.features.floor for each in both)
        old, challenger = (_errors(each, self._samples, t_s - self._trial_s, floor) for each in both)
        if len(old) < LEAST_TRIALS or len(challenger) < LEAST_TRIALS:
            return Change(t_s, "untrained", math.nan, math.nan, f"only {len(challenger)} outcomes to compare it on")
        before, after = float(np.mean(old)), float(np.mean(challenger))
        if after >= before:
            return Change(t_s, "kept", before, after)
        self._forecaster = Forecaster(new)
        for each in self._samples:
            if each[0] > t_s - _HISTORY_S:
                self._forecaster.push(*each)
        self._forecaster.error = None
        self._alarm = DriftAlarm()
        return Change(t_s, "replaced", before, after)


_HISTORY_S = 900.0
"""Samples that a new model sees before its first forecast [s]: the longest window of a feature is 300 s."""


def _train(signal: Signal, old: StoredModel) -> StoredModel:
    from bentpipe.predict.arrays import native_model, to_arrays
    from bentpipe.predict.score import train
    from bentpipe.predict.store import StoredModel, record_of

    fitted = train([signal], old.record.model, old.horizon)
    return StoredModel(record_of(fitted), native_model(to_arrays(fitted.estimator)), old.name)


def _errors(model: StoredModel, samples: deque[tuple[float, float]], since_s: float, floor: float) -> list[float]:
    """Return the errors of a model's medians from a time on, each from the samples before it.

    Relative errors of two models compare only with the same floor, at least that of each: a higher one makes smaller.
    """
    forecaster, errors = Forecaster(model), []
    for t_s, value in samples:
        if t_s <= since_s - _HISTORY_S:
            continue
        forecaster.push(t_s, value)
        if forecaster.outcome is not None and t_s >= since_s:
            came, median = forecaster.outcome
            is_relative = model.record.features.relative
            errors.append(abs(math.log((came + floor) / (median + floor)) if is_relative else came - median))
        forecaster.outcome = None
    return errors


def replay(model: StoredModel, signal: Signal, *, retrains: bool) -> list[Change]:
    """Return the changes that following a signal would have told.

    Raises:
        UserError: The model is for another signal, or there are too few outcomes to tell.
    """
    model.check(signal)
    online = OnlineForecaster(model, retrains=retrains, in_background=False)
    changes = [
        change
        for session in signal.sessions
        for t_s, value in zip(session.t_s.tolist(), session.values.tolist(), strict=True)
        for change in online.push(t_s, value)
    ]
    if online.outcomes < LEAST_OUTCOMES:
        raise UserError(
            f"too little data: {online.outcomes} forecasts with a known outcome",
            where=signal.source,
            expected=f"{LEAST_OUTCOMES} or more, one each second",
        )
    return changes + online.end()
