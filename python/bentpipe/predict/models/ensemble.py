"""The mean of several estimators' quantiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from bentpipe.predict.levels import MEDIAN
from bentpipe.predict.models.base import check_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from bentpipe.predict.models.base import Floats


class Ensemble(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The mean of the quantiles of other estimators (Vincent averaging).

    Attributes:
        members_: The fitted estimators.
    """

    def __init__(self, members: Sequence[Any] = ()) -> None:
        """Store estimators that are not fitted."""
        self.members = members

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Ensemble:  # noqa: N803
        """Learn from rows, shape (n, columns), and their targets and weights, shape (n,)."""
        features, target = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        if not self.members:
            raise ValueError("an ensemble has no members; expected one or more estimators")
        weights = check_weights(sample_weight, features)
        self.members_ = [
            clone(member).fit(
                features,
                target,
                **({"sample_weight": weights} if has_fit_parameter(member, "sample_weight") else {}),
            )
            for member in self.members
        ]
        return self

    def predict(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the medians, shape (n,)."""
        return self.predict_quantiles(X)[:, MEDIAN]

    def predict_quantiles(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the quantiles, shape (n, levels)."""
        check_is_fitted(self)
        features = validate_data(self, X, reset=False, dtype=np.float64)
        every: Floats = np.mean([member.predict_quantiles(features) for member in self.members_], axis=0)
        return every

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn's type
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
