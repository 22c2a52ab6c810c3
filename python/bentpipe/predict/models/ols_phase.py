"""Least squares for each second of the slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bentpipe.predict.levels import LEVELS
from bentpipe.predict.models.base import PointEstimator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bentpipe.predict.models.base import Floats

RIDGE = 1e-3
"""Weight of the penalty relative to the variance of the features; chosen here, so that collinear means do no harm."""

MOST_PHASES = 60
LEAST_ROWS = 200


class OlsPhase(PointEstimator):
    """One linear regression, with the quantiles of its errors, for each second since the edge of the slot.

    Attributes:
        weights_: Shape (phases, columns + 1), the last the intercept.
        errors_: Quantiles of the errors, shape (phases, levels).
    """

    def __init__(self, phase_column: int | None = None) -> None:
        """Store the number of the feature ``slot_since_s``; None: one regression."""
        self.phase_column = phase_column

    def fit(self, X: object, y: object) -> OlsPhase:  # noqa: N803
        """Learn from rows, shape (n, columns), and their targets, shape (n,)."""
        from sklearn.utils.validation import validate_data

        features, target = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        phase = self._phases(features)
        self.weights_ = np.zeros((int(phase.max()) + 1, features.shape[1] + 1))
        self.errors_ = np.zeros((len(self.weights_), len(LEVELS)))
        all_rows = least_squares(features, target)
        for number in range(len(self.weights_)):
            mine = phase == number
            enough = mine.sum() >= LEAST_ROWS
            weights = least_squares(features[mine], target[mine]) if enough else all_rows
            self.weights_[number] = weights
            chosen = mine if enough else np.full(len(mine), fill_value=True)
            errors = target[chosen] - (features[chosen] @ weights[:-1] + weights[-1])
            self.errors_[number] = np.quantile(errors, LEVELS)
        return self

    def predict_quantiles(self, X: object) -> Floats:  # noqa: N803
        """Return the quantiles, shape (n, levels)."""
        from sklearn.utils.validation import check_is_fitted, validate_data

        check_is_fitted(self)
        features = validate_data(self, X, reset=False, dtype=np.float64)
        quantiles: Floats = self._point(features)[:, None] + self.errors_[self._known_phases(features)]
        return quantiles

    def _point(self, features: Floats) -> Floats:
        weights = self.weights_[self._known_phases(features)]
        point: Floats = (features * weights[:, :-1]).sum(axis=1) + weights[:, -1]
        return point

    def _known_phases(self, features: Floats) -> NDArray[np.int64]:
        """Return the phases of rows; those that training did not see count as the last."""
        return np.minimum(self._phases(features), len(self.weights_) - 1)

    def _phases(self, features: Floats) -> NDArray[np.int64]:
        if self.phase_column is None:
            return np.zeros(len(features), dtype=np.int64)
        return np.clip(np.floor(features[:, self.phase_column]), 0, MOST_PHASES - 1).astype(np.int64)


def least_squares(features: Floats, target: Floats) -> Floats:
    """Return weights and intercept of a ridge regression on standardised features."""
    mean, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 1e-9, scale, np.inf)
    standard = (features - mean) / scale
    gram = standard.T @ standard + RIDGE * len(features) * np.eye(features.shape[1])
    weights = np.linalg.solve(gram, standard.T @ (target - target.mean())) / scale
    return np.append(weights, target.mean() - mean @ weights)
