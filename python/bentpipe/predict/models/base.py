"""What estimators share: point predictions with the empirical quantiles of their errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bentpipe.predict.levels import LEVELS, MEDIAN

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


def check_weights(weights: ArrayLike | None, features: Floats) -> Floats | None:
    """Return the weights of rows, shape (n,); None: all are equal. Raises `ValueError`: negative, or all zero."""
    if weights is None:
        return None
    checked: Floats = _check_sample_weight(weights, features, ensure_non_negative=True)
    if not checked.any():
        raise ValueError("sample weights are all zero; expected one above zero")
    return checked


class PointEstimator(RegressorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A point prediction, to which the quantiles of its errors in training are added.

    A subclass has ``_learn(X, y)`` and ``_point(X)``.
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> PointEstimator:  # noqa: N803 - scikit-learn's name
        """Learn from rows, shape (n, columns), and their targets, shape (n,)."""
        features, target = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        self._learn(features, target)
        self.errors_ = np.quantile(target - self._point(features), LEVELS)
        return self

    def predict(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the medians, shape (n,)."""
        return self.predict_quantiles(X)[:, MEDIAN]

    def predict_quantiles(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the quantiles, shape (n, levels)."""
        check_is_fitted(self)
        features = validate_data(self, X, reset=False, dtype=np.float64)
        quantiles: Floats = self._point(features)[:, None] + self.errors_
        return quantiles

    def _learn(self, features: Floats, target: Floats) -> None:
        """Learn; without it there is nothing to learn but the errors."""

    @abstractmethod
    def _point(self, features: Floats) -> Floats:
        """Return the point predictions, shape (n,)."""

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn's type
        """Return scikit-learn's tags: baselines score poorly on its data."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
