"""Baselines: the value of one feature, such as the last sample or a mean, is the prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.predict.models.base import PointEstimator

if TYPE_CHECKING:
    from bentpipe.predict.models.base import Floats


class Column(PointEstimator):
    """Predict a feature's value: ``lag_0`` holds the last sample.

    Its point is not corrected by the median error, so that hold is hold; the quantiles around it are.
    """

    def __init__(self, column: int = 0) -> None:
        """Store the number of the feature."""
        self.column = column

    def predict(self, X: object) -> Floats:  # noqa: N803
        """Return the feature, shape (n,)."""
        from sklearn.utils.validation import check_is_fitted, validate_data

        check_is_fitted(self)
        return self._point(validate_data(self, X, reset=False, dtype=float))

    def _point(self, features: Floats) -> Floats:
        return features[:, self.column]
