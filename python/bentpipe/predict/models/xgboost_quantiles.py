"""Gradient-boosted trees for each quantile, by XGBoost."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bentpipe.predict.levels import LEVELS, MEDIAN
from bentpipe.predict.models.base import check_weights

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from bentpipe.predict.models.base import Floats


ALONE = 50_000
"""Rows below which one thread trains: with few rows several wait for each other, on a busy machine for minutes."""


class XGBoostQuantiles(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """XGBoost with the pinball loss of every level; quantiles that cross are sorted.

    Attributes:
        booster_: The trees.
    """

    def __init__(
        self, n_estimators: int = 150, max_depth: int = 4, learning_rate: float = 0.06, min_child_weight: float = 20.0
    ) -> None:
        """Store the settings of XGBoost."""
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.min_child_weight = min_child_weight

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> XGBoostQuantiles:  # noqa: N803
        """Learn from rows, shape (n, columns), and their targets and weights, shape (n,)."""
        import xgboost

        features, target = validate_data(self, X, y, y_numeric=True, dtype=np.float64, ensure_all_finite="allow-nan")
        weights = check_weights(sample_weight, features)
        settings = {
            "objective": "reg:quantileerror",
            "quantile_alpha": list(LEVELS),
            "max_depth": self.max_depth,
            "eta": self.learning_rate,
            "min_child_weight": self.min_child_weight,
            "subsample": 0.7,
            "colsample_bytree": 0.7,
            "tree_method": "hist",
            "max_bin": 128,
            "seed": 1,
            "nthread": 1 if len(features) < ALONE else len(os.sched_getaffinity(0)),
            "verbosity": 0,
        }
        rows = xgboost.QuantileDMatrix(features, target, weight=weights, max_bin=settings["max_bin"])
        self.booster_ = xgboost.train(settings, rows, self.n_estimators)
        return self

    def predict(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the medians, shape (n,)."""
        return self.predict_quantiles(X)[:, MEDIAN]

    def predict_quantiles(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the quantiles, shape (n, levels)."""
        check_is_fitted(self)
        features = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        return np.sort(self.booster_.inplace_predict(features).astype(np.float64).reshape(len(features), -1), axis=1)

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn's type
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.regressor_tags.poor_score = True
        return tags
