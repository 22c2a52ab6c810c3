"""State of the service: the newest sample, the learned clock, forecasts, the serving satellite."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.aware.documents import Forecasts, NextEdge, Prediction, Serving, Telemetry
from bentpipe.predict.clock import PERIOD_S, find_clock
from bentpipe.predict.forecaster import Forecaster
from bentpipe.predict.signals import TELEMETRY, THROUGHPUT, Signal, on_grid
from bentpipe.times import SLOT_PHASE_S, SLOT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe.measurements.dish.display import ServingSatellite
    from bentpipe.predict.features import SlotClock
    from bentpipe.predict.store import StoredModel
    from bentpipe.records import Record

STALE_S = 5.0
"""Age from which a sample is not the present any more [s]; chosen here: five polls."""

LEARN_FROM_S = 3600.0
"""Length of the history from which the clock is learned [s]."""

DECIDED_S = 1800.0
"""Length of a history in which slots would have shown [s]; then the published schedule is not told any more."""

LEARN_EVERY_S = 60.0
"""Time between two looks for the clock [s]."""

CLOCK_ERROR_S = 1.0
"""Error of a clock that is learned from one sample a second [s]: changes are seen at the next poll."""

SET_S = 0.5
"""Change of the clock from one sample to the next above which it was set [s]; NTP slews by 0.5 ms a second."""

NUMBERS = ("latency_ms", "drop_rate", "downlink_bps", "uplink_bps")
"""Signals for conditions."""


@dataclass(frozen=True)
class Sample:
    """A sample of a terminal.

    Attributes:
        t_s: Time [s since 1970].
        values: Fields of `Telemetry`.
        satellite: The serving satellite; None: unknown.
    """

    t_s: float
    values: dict[str, Any]
    satellite: ServingSatellite | None = None


class State:
    """What the service knows. Not for several threads."""

    def __init__(
        self,
        models: Sequence[StoredModel] = (),
        *,
        has_elements: bool = False,
        has_schedule: bool = False,
        now_s: Callable[[], float],
        steady_s: Callable[[], float] | None = None,
    ) -> None:
        """Begin without samples.

        Args:
            models: Models that forecast.
            has_elements: Whether samples have a serving satellite.
            has_schedule: Whether Starlink's published schedule (:12, :27, :42, :57) is told until a clock is learned.
            now_s: Returns the time of the feed [s since 1970].
            steady_s: Returns a time that runs on where that of the feed is set [s]; None: it is never set.
        """
        self._steady_s = steady_s
        self._apart_s: float | None = None
        self.has_schedule = has_schedule
        self.now_s = now_s
        self.has_elements = has_elements
        self.trouble = "no sample yet"
        self.clock: SlotClock | None = None
        self._sample: Sample | None = None
        self._forecasters = [Forecaster(model) for model in models]
        self._history: deque[tuple[float, float]] = deque(maxlen=int(LEARN_FROM_S))
        self._learned_s = -math.inf

    def observe(self, sample: Sample) -> None:
        """Take a sample. Where the clock was set all begins anew: what was learned was by another clock."""
        is_older = self._sample is not None and sample.t_s < self._sample.t_s - 60
        if self._was_set() or is_older:
            self._history.clear()
            self.clock = None
            self._forecasters = [Forecaster(each.model) for each in self._forecasters]
            self._learned_s = -math.inf
        self._sample, self.trouble = sample, ""
        latency, rate = sample.values.get("latency_ms"), sample.values.get("downlink_bps")
        value = float(latency) if isinstance(latency, (int, float)) else math.nan
        self._history.append((sample.t_s, value))
        for forecaster in self._forecasters:
            name = forecaster.model.record.signal
            of_rate = float(rate) / 1e6 if isinstance(rate, (int, float)) else math.nan
            forecaster.push(sample.t_s, value if name == TELEMETRY else of_rate if name == THROUGHPUT else math.nan)
        if sample.t_s - self._learned_s >= LEARN_EVERY_S:
            self._learned_s = sample.t_s
            self._learn()

    def _was_set(self) -> bool:
        """Return whether the feed's clock was set since the last sample."""
        if self._steady_s is None:
            return False
        apart_s, before_s = self.now_s() - self._steady_s(), self._apart_s
        self._apart_s = apart_s
        return before_s is not None and abs(apart_s - before_s) > SET_S

    def _learn(self) -> None:
        times, values = (np.array(each) for each in zip(*self._history, strict=True))
        sessions = on_grid(times, values)
        self.clock = find_clock([Signal(TELEMETRY, "terminal", sessions)]) if sessions else None

    def numbers(self) -> dict[str, float]:
        """Return the numbers of the newest sample, for conditions."""
        values = {} if self._sample is None else self._sample.values
        return {name: float(value) for name in NUMBERS if isinstance(value := values.get(name), (int, float))}

    def _staleness(self) -> str | None:
        if self._sample is None:
            return self.trouble
        age_s = self.now_s() - self._sample.t_s
        if age_s <= STALE_S:
            return None
        return f"the newest sample is {age_s:.0f} s old{f' ({self.trouble})' if self.trouble else ''}"

    def telemetry(self) -> Telemetry:
        """Return the newest sample with its age."""
        now_s = self.now_s()
        if self._sample is None:
            return Telemetry(now_s=now_s, reason=self.trouble)
        age_s = max(0.0, now_s - self._sample.t_s)
        known = {name: value for name, value in self._sample.values.items() if value is not None}
        return Telemetry(now_s=now_s, t_s=self._sample.t_s, age_s=age_s, reason=self._staleness(), **known)

    def next(self) -> NextEdge:
        """Return the next edge. A clock runs on without samples; its error grows with 100 ppm, a bad crystal."""
        now_s = self.now_s()
        if self.clock is None and self.has_schedule and len(self._history) < DECIDED_S:
            in_s = SLOT_S - (now_s - SLOT_PHASE_S) % SLOT_S
            reason = "the published schedule by this machine's clock, not checked yet"
            return NextEdge(
                now_s=now_s, edge_s=now_s + in_s, in_s=in_s, period_s=float(SLOT_S), basis="schedule", reason=reason
            )
        if self.clock is None:
            minutes = len(self._history) / 60
            reason = f"no clock found in {minutes:.0f} min of latency" if self._history else self.trouble
            return NextEdge(now_s=now_s, reason=reason)
        _, since_s = self._slot(now_s)
        in_s = self.clock.period_s - since_s
        error_s = CLOCK_ERROR_S + 1e-4 * max(0.0, now_s - self._learned_s)
        return NextEdge(
            now_s=now_s,
            edge_s=now_s + in_s,
            error_s=error_s,
            in_s=in_s,
            period_s=self.clock.period_s,
            basis="learned",
        )

    def _slot(self, now_s: float) -> tuple[float, float]:
        phase_s, period_s = (0.0, PERIOD_S) if self.clock is None else (self.clock.phase_s, self.clock.period_s)
        number = math.floor((now_s - phase_s) / period_s)
        return number, (now_s - phase_s) - number * period_s

    def forecast(self) -> Forecasts:
        """Return the newest forecasts; none from samples that are not new."""
        now_s = self.now_s()
        if not self._forecasters:
            return Forecasts(now_s=now_s, reason="no model; --models DIR")
        if (reason := self._staleness()) is not None:
            return Forecasts(now_s=now_s, reason=reason)
        made = [each.forecast() for each in self._forecasters]
        predictions = tuple(
            Prediction(
                model=each.model,
                signal=each.signal,
                unit=each.unit,
                from_s=each.from_s,
                to_s=each.to_s,
                levels=each.levels,
                values=each.values,
            )
            for each in made
            if each is not None and each.age_s <= STALE_S
        )
        return Forecasts(
            now_s=now_s, forecasts=predictions, reason=None if predictions else "too little history for a forecast"
        )

    def serving(self) -> Serving:
        """Return the serving satellite."""
        now_s = self.now_s()
        if not self.has_elements:
            return Serving(now_s=now_s, reason="no orbital elements; --elements FILE")
        satellite = None if self._sample is None else self._sample.satellite
        if (reason := self._staleness()) is not None or satellite is None:
            return Serving(now_s=now_s, reason=reason or "not known in this slot yet")
        return Serving(
            now_s=now_s,
            satellite=satellite.name,
            norad_id=satellite.norad_id,
            confidence=round(float(satellite.confidence), 4),
        )

    def document(self, kind: str) -> Record:
        """Return the document of a kind."""
        document: Record = getattr(self, kind)()
        return document
