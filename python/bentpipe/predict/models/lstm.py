"""A long short-term memory over the lags, beside least squares on all features.

Equations: Hochreiter and Schmidhuber 1997 with the forget gate of Gers et al. 2000. Training is backpropagation through
time with Adam (Kingma and Ba 2015), in NumPy: 15 steps of one number need no library for deep learning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bentpipe.predict.levels import LEVELS, MEDIAN
from bentpipe.predict.models.ols_phase import least_squares

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from bentpipe.predict.models.base import Floats

BATCH = 256
RATE = 3e-3
"""Step of Adam."""
MOST_EPOCHS = 20
HELD = 5.0
"""Largest standardised feature that the network sees; chosen here."""


class Lstm(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Quantiles from a memory that reads the lags, oldest first, and a linear part that starts as least squares.

    Attributes:
        length_: Number of lags.
        mean_, scale_: Of the features, shape (columns,); 0 is no scale of a feature that is constant.
        center_, spread_: Of the target.
        gates_: Weights of input, state and a constant for the four gates (input, forget, output, candidate), shape
            (2 + units, 4 · units).
        head_: Weights of state, standardised features and a constant, shape (units + columns + 1, levels).
    """

    def __init__(self, lags: int | None = None, units: int = 16, batches: int = 3000) -> None:
        """Store the number of lags, which are the first columns, newest first; None: all columns."""
        self.lags = lags
        self.units = units
        self.batches = batches

    def fit(self, X: ArrayLike, y: ArrayLike) -> Lstm:  # noqa: N803 - scikit-learn's name
        """Learn from rows, shape (n, columns), and their targets, shape (n,)."""
        features, target = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        rng = np.random.default_rng(1)
        self.mean_ = features.mean(axis=0)
        scale = features.std(axis=0)
        self.scale_ = np.where(scale > 1e-9, 1 / np.where(scale > 1e-9, scale, 1.0), 0.0)
        self.center_, self.spread_ = float(target.mean()), float(target.std()) or 1.0
        self.length_ = min(features.shape[1], self.lags or features.shape[1])
        rows, aim = self._standard(features), (target - self.center_) / self.spread_
        units = self.units
        gates = rng.normal(0, 1 / np.sqrt(2 + units), (2 + units, 4 * units))
        gates[-1] = np.repeat([0.0, 1.0, 0.0, 0.0], units)  # remembers at first
        linear = least_squares(rows, aim)
        errors = np.quantile(aim - rows @ linear[:-1] - linear[-1], LEVELS)
        levels = len(LEVELS)
        head = np.vstack([np.zeros((units, levels)), np.repeat(linear[:-1, None], levels, 1), linear[-1] + errors])
        self.gates_, self.head_ = _train(rows, aim, self.length_, gates, head, rng, self.batches)
        return self

    def predict(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the medians, shape (n,)."""
        return self.predict_quantiles(X)[:, MEDIAN]

    def predict_quantiles(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the quantiles, shape (n, levels)."""
        check_is_fitted(self)
        features = validate_data(self, X, reset=False, dtype=np.float64)
        rows = self._standard(features)
        state = _states(rows, self.length_, self.gates_)[-1][0]
        outputs = np.column_stack([state, rows, np.ones(len(rows))]) @ self.head_
        quantiles: Floats = np.sort(outputs * self.spread_ + self.center_, axis=1)
        return quantiles

    def _standard(self, features: Floats) -> Floats:
        rows: Floats = np.clip((features - self.mean_) * self.scale_, -HELD, HELD)
        return rows

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn's type
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


def _sigmoid(values: Floats) -> Floats:
    result: Floats = 1 / (1 + np.exp(-values))
    return result


def _states(rows: Floats, length: int, gates: Floats) -> list[tuple[Floats, ...]]:
    """Return (state, memory, input row, input, forget, output and candidate gates) after each step."""
    units = gates.shape[1] // 4
    state = memory = np.zeros((len(rows), units))
    steps: list[tuple[Floats, ...]] = []
    for lag in range(length - 1, -1, -1):
        entry = np.column_stack([rows[:, lag], state, np.ones(len(rows))])
        raw = entry @ gates
        opened = _sigmoid(raw[:, : 3 * units])
        taken, kept, shown = opened[:, :units], opened[:, units : 2 * units], opened[:, 2 * units :]
        candidate = np.tanh(raw[:, 3 * units :])
        memory = kept * memory + taken * candidate
        state = shown * np.tanh(memory)
        steps.append((state, memory, entry, taken, kept, shown, candidate))
    return steps


def _train(
    rows: Floats, aim: Floats, length: int, gates: Floats, head: Floats, rng: np.random.Generator, batches: int
) -> tuple[Floats, Floats]:
    """Minimise the pinball loss of every level; returns gates and head."""
    levels, size = np.array(LEVELS), min(BATCH, len(rows))
    total = min(batches, MOST_EPOCHS * max(1, len(rows) // size))
    moments = [(np.zeros_like(each), np.zeros_like(each)) for each in (gates, head)]
    order, at = rng.permutation(len(rows)), 0
    for number in range(1, total + 1):
        if at + size > len(rows):
            order, at = rng.permutation(len(rows)), 0
        chosen = order[at : at + size]
        at += size
        batch = rows[chosen]
        steps = _states(batch, length, gates)
        last = np.column_stack([steps[-1][0], batch, np.ones(size)])
        slope = (np.where(aim[chosen, None] < last @ head, 1.0, 0.0) - levels) / size
        slopes = _backward(steps, slope @ head[: gates.shape[1] // 4].T, gates), last.T @ slope
        rate = RATE * 0.5 * (1 + np.cos(np.pi * number / total))
        gates, head = (
            _adam(each, slope_of, moment, number, rate)
            for each, slope_of, moment in zip((gates, head), slopes, moments, strict=True)
        )
    return gates, head


def _backward(steps: list[tuple[Floats, ...]], state_slope: Floats, gates: Floats) -> Floats:
    """Return the slope of the loss by `gates`, from that by the last state."""
    units = gates.shape[1] // 4
    total = np.zeros_like(gates)
    memory_slope = np.zeros_like(state_slope)
    for number in range(len(steps) - 1, -1, -1):
        _, memory, entry, taken, kept, shown, candidate = steps[number]
        before = steps[number - 1][1] if number else np.zeros_like(memory)
        bent = np.tanh(memory)
        memory_slope = memory_slope + state_slope * shown * (1 - bent**2)
        raw = np.hstack(
            [
                memory_slope * candidate * taken * (1 - taken),
                memory_slope * before * kept * (1 - kept),
                state_slope * bent * shown * (1 - shown),
                memory_slope * taken * (1 - candidate**2),
            ]
        )
        total += entry.T @ raw
        state_slope = raw @ gates[1 : 1 + units].T
        memory_slope = memory_slope * kept
    return total


def _adam(values: Floats, slope: Floats, moment: tuple[Floats, Floats], number: int, rate: float) -> Floats:
    first, second = moment
    first += 0.1 * (slope - first)
    second += 0.001 * (slope**2 - second)
    step = first / (1 - 0.9**number) / (np.sqrt(second / (1 - 0.999**number)) + 1e-8)
    return values - rate * step
