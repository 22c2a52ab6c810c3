"""The weighted mean of several estimators' quantiles, with weights learned on rows that they have not seen."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from bentpipe.predict.levels import LEVELS, MEDIAN
from bentpipe.predict.models.base import check_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from bentpipe.predict.models.base import Floats

STEPS = 10
"""Weights are multiples of a tenth; chosen here."""

LEAST_ROWS = 400
"""Fewest rows to learn weights from; with fewer all members count the same."""


class Ensemble(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """The weighted mean of the quantiles of other estimators (Vincent averaging).

    Each half of the rows, in their order, is predicted by members trained on the other half; the weights with the
    least pinball loss count. So a member that does not help, such as trees where the last sample is best, counts
    little (stacking: Wolpert 1992).

    Attributes:
        members_: The fitted estimators.
        weights_: Their weights, with the sum 1.
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
        self.weights_ = self._learn_weights(features, target, weights)
        self.members_ = self._fitted(features, target, weights)
        return self

    def _fitted(self, features: Floats, target: Floats, weights: Floats | None) -> list[Any]:
        return [
            clone(member).fit(
                features,
                target,
                **({"sample_weight": weights} if has_fit_parameter(member, "sample_weight") else {}),
            )
            for member in self.members
        ]

    def _learn_weights(self, features: Floats, target: Floats, weights: Floats | None) -> Floats:
        count = len(self.members)
        half = len(target) // 2
        parts = slice(0, half), slice(half, None)
        if count == 1 or len(target) < LEAST_ROWS or (weights is not None and not all(weights[p].any() for p in parts)):
            return np.full(count, 1 / count)
        unseen = np.empty((count, len(target), len(LEVELS)))
        for learned, predicted in (parts, parts[::-1]):
            part = None if weights is None else weights[learned]
            for number, member in enumerate(self._fitted(features[learned], target[learned], part)):
                unseen[number, predicted] = member.predict_quantiles(features[predicted])
        candidates = simplex(count, STEPS)
        losses = [pinball(np.tensordot(each, unseen, axes=1), target, weights) for each in candidates]
        best: Floats = candidates[int(np.argmin(losses))]
        return best

    def predict(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the medians, shape (n,)."""
        return self.predict_quantiles(X)[:, MEDIAN]

    def predict_quantiles(self, X: ArrayLike) -> Floats:  # noqa: N803
        """Return the quantiles, shape (n, levels)."""
        check_is_fitted(self)
        features = validate_data(self, X, reset=False, dtype=np.float64)
        every = np.zeros((len(features), len(LEVELS)))
        for weight, member in zip(self.weights_, self.members_, strict=True):
            if weight > 0:
                every += weight * member.predict_quantiles(features)
        return every

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn's type
        """Return scikit-learn's tags."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


def simplex(count: int, steps: int) -> Floats:
    """Return all weights of `count` members that are multiples of 1 / `steps`, shape (n, count).

    Example:
        >>> simplex(2, 2).tolist()
        [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]]
    """
    bars = [(-1, *each, steps + count - 1) for each in combinations(range(steps + count - 1), count - 1)]
    weights: Floats = (np.diff(np.array(bars), axis=1) - 1) / steps
    return weights


def pinball(quantiles: Floats, target: Floats, weights: Floats | None) -> float:
    """Return the mean pinball loss over all levels; quantiles have shape (n, levels)."""
    excess = target[:, None] - quantiles
    levels = np.array(LEVELS)
    loss = np.maximum(levels * excess, (levels - 1) * excess).mean(axis=1)
    return float(np.average(loss, weights=weights))
