"""Forecasts while a signal is followed, sample by sample, and over a whole signal."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bentpipe.predict.conformal import OnlineMargin, with_margins
from bentpipe.predict.dataset import to_values
from bentpipe.predict.features import FeatureStream, SlotClock, features_table
from bentpipe.predict.levels import LEVELS, MEDIAN
from bentpipe.predict.signals import LONGEST_GAP_S, TELEMETRY, THROUGHPUT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bentpipe.predict.signals import Signal
    from bentpipe.predict.store import StoredModel

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Forecast:
    """Quantiles of a later value of a signal.

    Attributes:
        signal: Name of the signal.
        unit: Its unit.
        made_at_s: End of the newest step that it rests on [s].
        from_s, to_s: Time that it is for [s].
        levels: Levels of the quantiles.
        values: Quantiles, in the unit.
        age_s: Time since the newest sample [s].
        model: Name of the model.
    """

    signal: str
    unit: str
    made_at_s: float
    from_s: float
    to_s: float
    levels: tuple[float, ...]
    values: tuple[float, ...]
    age_s: float
    model: str


class Forecaster:
    """Follows a signal and forecasts it, with 90 % intervals whose margins follow what came.

    Samples of pings and of throughput are averaged over whole steps, so that a forecast rests on complete ones.
    """

    def __init__(self, model: StoredModel, clock: SlotClock | None = None) -> None:
        """Begin without history; `clock` replaces the model's own, where it has one."""
        spec = model.record.features
        if clock is not None and spec.slot is not None:
            spec = spec.model_copy(update={"slot": clock})
        self.model = model
        self.spec = spec
        self.horizon = model.horizon
        self.margin = OnlineMargin()
        #: Size of the newest known error of the median (relative, if the model predicts ratios); None: none is new.
        self.error: float | None = None
        #: The outcome of that error: what came, and the median that was forecast, in the signal's unit.
        self.outcome: tuple[float, float] | None = None
        self._steps = self.horizon.steps(spec.step_s)
        self._is_averaged = model.record.signal != TELEMETRY
        self._begin()

    def _begin(self) -> None:
        self._stream = FeatureStream(self.spec)
        self._step: int | None = None
        self._pending: list[float] = []
        #: Of the newest steps: value, reference, and where there was a forecast its quantiles without and with margins.
        self._past: deque[tuple[float, float, tuple[Floats, Floats] | None]] = deque(maxlen=self._steps)
        self._last_s: float | None = None
        self._sample_s: float | None = None
        self._issued: Floats | None = None

    def push(self, t_s: float, value: float) -> None:
        """Add a sample at `t_s`; NaN: a lost probe. Samples that are not newer than the last one are left out.

        One that is over 30 s older begins a new history: the clock was set back.
        """
        if not math.isfinite(t_s):
            return
        newest_s = self._last_s if self._step is None else self._step * self.spec.step_s
        if newest_s is not None and t_s < newest_s - LONGEST_GAP_S:
            self._begin()
        if not self._is_averaged:
            if self._last_s is None or t_s - self._last_s >= self.spec.step_s / 2:
                self._advance(t_s, value)
            return
        step = math.floor(t_s / self.spec.step_s)
        if self._step is not None and step < self._step:
            return
        if self._step is not None and step > self._step:
            known = [each for each in self._pending if math.isfinite(each)]
            self._advance(self._step * self.spec.step_s, sum(known) / len(known) if known else math.nan)
            self._pending = []
        self._step = step
        self._pending.append(value)

    def forecast(self) -> Forecast | None:
        """Return the newest forecast; None: there is too little history."""
        if self._issued is None or self._last_s is None or self._sample_s is None:
            return None
        from_s, to_s = self.horizon.window_s(self._last_s, self.spec.step_s)
        values = self._values(self._issued)
        return Forecast(
            signal=self.model.record.signal,
            unit="Mbit/s" if self.model.record.signal == THROUGHPUT else "ms",
            made_at_s=self._last_s + self.spec.step_s,
            from_s=from_s,
            to_s=to_s,
            levels=LEVELS,
            values=tuple(float(each) for each in values),
            age_s=self._last_s - self._sample_s,
            model=self.model.name,
        )

    def _values(self, quantiles: Floats) -> Floats:
        every = to_values(quantiles[None], np.array([self._stream.reference]), self.spec)
        return every.ravel()

    def _advance(self, t_s: float, value: float) -> None:
        usable = value if math.isfinite(value) and (value > 0 or (value == 0 and self.spec.floor > 0)) else math.nan
        if self._last_s is not None and t_s - self._last_s > 1.5 * self.spec.step_s:
            self._past.clear()  # what came in between is not known
        row = self._stream.push(t_s, usable)
        self._last_s = t_s
        if math.isfinite(usable):
            self._sample_s = t_s
        self._learn(usable)
        self._issued, made = None, None
        if self._stream.is_ready:
            quantiles = self.model.native.predict(np.ascontiguousarray(row))
            self._issued = self.margin.apply(quantiles)
            made = quantiles, self._issued
        self._past.append((usable, self._stream.reference, made))

    def _learn(self, newest: float) -> None:
        """Compare the forecast of `steps` ago with what came."""
        self.error = self.outcome = None
        if len(self._past) < self._steps:
            return
        values = [*(value for value, _, _ in self._past), newest]
        came = float(np.mean(values[1:])) if self.horizon.is_mean else newest
        _, reference, made = self._past[0]
        if made is None or not math.isfinite(came):
            return
        median = float(to_values(made[0][None], np.array([reference]), self.spec)[0, MEDIAN])
        self.outcome = came, median
        if self.spec.relative:
            came = math.log((came + self.spec.floor) / (reference + self.spec.floor))
        self.error = abs(came - float(made[0][MEDIAN]))
        self.margin.learn(*made, came)


def forecast_table(model: StoredModel, signal: Signal) -> pl.DataFrame:
    """Return the forecasts at every step of a signal: what a `Forecaster` returns as it follows it.

    Returns:
        Columns `made_at_s`, `from_s`, `to_s` [s], and `q05` … `q95` in the signal's unit; no row where there is too
        little history.

    Raises:
        UserError: The model is for another signal.
    """
    model.check(signal)
    spec, horizon = model.record.features, model.horizon
    steps = horizon.steps(spec.step_s)
    parts = []
    margin = OnlineMargin()
    for session in signal.sessions:
        values = session.values if spec.floor > 0 else np.where(session.values > 0, session.values, np.nan)
        rows, ready, reference = features_table(spec, session.t_s, values)
        if not ready.any():
            continue
        quantiles = model.native.predict(np.ascontiguousarray(rows[ready]).ravel()).reshape(-1, len(LEVELS))
        came = horizon.targets(session, spec.step_s)[ready]
        if spec.relative:
            with np.errstate(divide="ignore", invalid="ignore"):
                came = np.log((came + spec.floor) / (reference[ready] + spec.floor))
        moved = to_values(with_margins(quantiles, came, steps, margin), reference[ready], spec)
        times = [horizon.window_s(t_s, spec.step_s) for t_s in session.t_s[ready]]
        columns = {
            "made_at_s": session.t_s[ready] + spec.step_s,
            "from_s": [start for start, _ in times],
            "to_s": [end for _, end in times],
        }
        parts.append(pl.DataFrame(columns | {level_name(level): moved[:, i] for i, level in enumerate(LEVELS)}))
    return pl.concat(parts) if parts else pl.DataFrame(schema=_SCHEMA)


def level_name(level: float) -> str:
    """Return the name of a quantile's column."""
    return f"q{round(100 * level):02d}"


_SCHEMA = dict.fromkeys(("made_at_s", "from_s", "to_s", *map(level_name, LEVELS)), pl.Float64)
