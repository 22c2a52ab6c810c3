"""ARIMA over the newest samples: differences with an autoregressive and a moving-average part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.predict.models.base import PointEstimator

if TYPE_CHECKING:
    from bentpipe.predict.models.base import Floats

MOST_ROWS = 20_000
"""Most rows of a fit, evenly spaced; chosen here: the parameters are at most six numbers."""


class Arima(PointEstimator):
    """ARIMA(p, 1, q) by conditional least squares (Box and Jenkins, section 7.1), each row a series of its lags.

    The first `lags` features are the newest samples, newest first. The errors before them are taken for 0.

    Attributes:
        ar_: Weights of earlier differences, shape (p,).
        ma_: Weights of earlier errors, shape (q,).
    """

    def __init__(self, p: int = 2, q: int = 2, lags: int = 15, steps: int = 1, is_mean: bool = False) -> None:
        """Store the orders, the number of lags, and the horizon in steps."""
        self.p = p
        self.q = q
        self.lags = lags
        self.steps = steps
        self.is_mean = is_mean

    def _learn(self, features: Floats, target: Floats) -> None:
        from scipy.optimize import least_squares

        del target  # the parameters are those of one step ahead
        series = self._series(features)[:: max(1, len(features) // MOST_ROWS)]
        differences = np.diff(series, axis=1)
        if differences.shape[1] <= self.p + self.q:  # too short for any order
            self.ar_, self.ma_ = np.zeros(self.p), np.zeros(self.q)
            return

        def newest_errors(weights: Floats) -> Floats:
            return self._errors(differences, weights[: self.p], weights[self.p :])[:, -3:].ravel()

        fitted = least_squares(
            newest_errors,
            np.full(self.p + self.q, 0.05),
            bounds=(-0.98, 0.98),
            max_nfev=40,
        )
        self.ar_, self.ma_ = fitted.x[: self.p], fitted.x[self.p :]

    def _series(self, features: Floats) -> Floats:
        return features[:, : self.lags][:, ::-1]

    def _errors(self, differences: Floats, ar: Floats, ma: Floats) -> Floats:
        """Return the errors one step ahead, shape of `differences`."""
        errors = np.zeros_like(differences)
        for now in range(differences.shape[1]):
            errors[:, now] = differences[:, now] - self._next(differences[:, :now], errors[:, :now], ar, ma)
        return errors

    @staticmethod
    def _next(differences: Floats, errors: Floats, ar: Floats, ma: Floats) -> Floats:
        expected = np.zeros(len(differences))
        for past, weights in ((differences, ar), (errors, ma)):
            for back in range(min(len(weights), past.shape[1])):
                expected += weights[back] * past[:, -1 - back]
        return expected

    def _point(self, features: Floats) -> Floats:
        series = self._series(features)
        differences = np.diff(series, axis=1)
        errors = self._errors(differences, self.ar_, self.ma_)
        level, total = series[:, -1].copy(), np.zeros(len(series))
        for _ in range(self.steps):
            step = self._next(differences, errors, self.ar_, self.ma_)
            level = level + step
            total += level
            differences = np.hstack([differences, step[:, None]])
            errors = np.hstack([errors, np.zeros((len(step), 1))])
        result: Floats = total / self.steps if self.is_mean else level
        return result
