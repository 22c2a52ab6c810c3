"""A classifier that tries to distinguish the model's slots from real ones.

It is trained on the windows that the model was fitted to and as many of the model's, and tested on held-out windows:
other sessions or other 20-minute blocks, never other slots of the same ones. The best of three kinds counts. The area
under its ROC curve is 0.5 if nothing distinguishes them and 1 if every slot is recognised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer

from bentpipe.validation.access_model.features import COARSE, FINE, slot_features
from bentpipe.validation.access_model.pings import Floats

#: Largest area at which the model counts as indistinguishable.
LIMIT = 0.65
#: Number of draws of windows, with replacement, for the 95 % interval of the area.
_DRAWS = 300
#: Parts of two sessions for cross-validation. Chosen here: each as long as a block of Seattle.
_FOLDS = 4
#: Largest number of most useful features in the output.
_NAMED = 3

Windows = Sequence[tuple[Floats, Floats]]


@dataclass(frozen=True)
class Slots:
    """Slots of several windows.

    Attributes:
        x: Features, one row a slot.
        window: Which window each is of.
    """

    x: Floats
    window: NDArray[np.int64]

    def drawn(self, count: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        """Draw as many windows as there are, with replacement, `count` times; return their rows."""
        rows = [np.flatnonzero(self.window == k) for k in np.unique(self.window)]
        chosen = rng.integers(len(rows), size=(count, len(rows)))
        return [np.concatenate([rows[k] for k in one]) for one in chosen]


@dataclass(frozen=True)
class ClassifierResult:
    """Result of a classifier at one place.

    Attributes:
        where: Site and set of features.
        kind: The best kind of classifier.
        area: Area under its ROC curve, on held-out windows.
        low, high: Interval of the area, over windows.
        by: Most useful features: name, and by how much the area falls if the feature is shuffled; largest first.
        alone: Area that each feature gives by itself, 0.5 to 1, on held-out windows.
        slots: Number of real slots in training and test.
    """

    where: str
    kind: str
    area: float
    low: float
    high: float
    by: list[tuple[str, float]]
    alone: dict[str, float]
    slots: tuple[int, int]


def slots_of(windows: Windows, *, fine: bool) -> Slots:
    """Return the slots of windows (times, RTTs)."""
    results = [slot_features(t_s, rtt_ms, fine=fine) for t_s, rtt_ms in windows]
    return Slots(np.concatenate(results), np.repeat(np.arange(len(results)), [len(x) for x in results]))


def joined(parts: Sequence[Slots]) -> Slots:
    """Join slots of several places; windows stay separate."""
    shift = np.cumsum([0, *(int(p.window.max(initial=-1)) + 1 for p in parts)])
    return Slots(
        np.concatenate([p.x for p in parts]),
        np.concatenate([p.window + first for p, first in zip(parts, shift, strict=False)]),
    )


def classify(
    where: str,
    train: Sequence[tuple[Slots, Slots]],
    tests: Sequence[tuple[str, Slots, Slots]],
    *,
    fine: bool,
    explain: bool,
) -> list[ClassifierResult]:
    """Train on pairs (real, model) and test on others, each pair with the same weight.

    Args:
        where: Set of features, for the name.
        train: A pair for each place.
        tests: Place, real slots, slots of the model.
        fine: Whether the features are `FINE`.
        explain: Whether to compute the interval and the most useful features.

    Returns:
        One result for each test, of the best kind there.
    """
    x = np.concatenate([slots.x for pair in train for slots in pair])
    is_real = np.concatenate(
        [np.full(len(slots.x), real) for pair in train for slots, real in zip(pair, (1, 0), strict=True)]
    )
    weight = np.concatenate([np.full(len(slots.x), 1 / max(len(slots.x), 1)) for pair in train for slots in pair])
    models = _trained(x, is_real, weight * len(x))
    names = FINE if fine else COARSE
    results = []
    for place, real, made in tests:
        truth = np.repeat([1, 0], [len(real.x), len(made.x)])
        both = np.concatenate([real.x, made.x])
        scores = {name: model.predict_proba(both)[:, 1] for name, model in models.items()}
        areas = {name: _area(truth, score) for name, score in scores.items()}
        best = max(areas, key=lambda name: areas[name])
        low, high = _interval(scores[best], real, made, _DRAWS if explain else 0)
        rng = np.random.default_rng(1)
        falls = []
        for k, name in enumerate(names if explain else ()):
            mixed = both.copy()
            mixed[:, k] = rng.permutation(mixed[:, k])
            falls.append((name, areas[best] - _area(truth, models[best].predict_proba(mixed)[:, 1])))
        falls.sort(key=lambda fall: -fall[1])
        alone = singly(real, made, fine=fine)
        trained_on = sum(len(pair[0].x) for pair in train)
        results.append(
            ClassifierResult(
                f"{place}, {where}",
                best,
                areas[best],
                low,
                high,
                falls[:_NAMED],
                alone,
                (trained_on, len(real.x)),
            )
        )
    return results


def classify_sessions(where: str, one: Slots, other: Slots, *, fine: bool) -> ClassifierResult:
    """Distinguish two sets of real slots: a model equal to one of them could do no better.

    The windows of both are cut into `_FOLDS` parts; classifiers trained on the other parts classify each.

    Args:
        where: Part of the name.
        one: Slots of one session.
        other: Slots of another session.
        fine: Whether the features are `FINE`.
    """
    x = np.concatenate([one.x, other.x])
    truth = np.repeat([1, 0], [len(one.x), len(other.x)])
    weight = np.repeat([len(x) / len(one.x), len(x) / len(other.x)], [len(one.x), len(other.x)])
    fold = np.concatenate([_folds(one), _folds(other)])
    scores = {name: np.zeros(len(x)) for name in _kinds()}
    for k in np.unique(fold):
        held_out = fold == k
        for name, model in _trained(x[~held_out], truth[~held_out], weight[~held_out]).items():
            scores[name][held_out] = model.predict_proba(x[held_out])[:, 1]
    areas = {name: _area(truth, score) for name, score in scores.items()}
    best = max(areas, key=lambda name: areas[name])
    low, high = _interval(scores[best], one, other, _DRAWS)
    return ClassifierResult(
        where, best, areas[best], low, high, [], singly(one, other, fine=fine), (len(x), len(one.x))
    )


def _interval(score: Floats, one: Slots, other: Slots, count: int) -> tuple[float, float]:
    """Return the 95 % interval of the areas over `count` draws of windows; `score` has the slots of both sides."""
    truth = np.repeat([1, 0], [len(one.x), len(other.x)])
    rng = np.random.default_rng(1)
    draws = [_area(truth, score)]
    for ours, theirs in zip(one.drawn(count, rng), other.drawn(count, rng), strict=True):
        rows = np.concatenate([ours, len(one.x) + theirs])
        draws.append(_area(truth[rows], score[rows]))
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(low), float(high)


def singly(real: Slots, made: Slots, *, fine: bool) -> dict[str, float]:
    """Return the area that each feature gives by itself, 0.5 to 1."""
    truth, both = np.repeat([1, 0], [len(real.x), len(made.x)]), np.concatenate([real.x, made.x])
    return {name: _alone(truth, both[:, k]) for k, name in enumerate(FINE if fine else COARSE)}


def _folds(slots: Slots) -> NDArray[np.int64]:
    """Return the part of each slot; consecutive windows stay together, as neighbours are alike."""
    _, window = np.unique(slots.window, return_inverse=True)
    part: NDArray[np.int64] = window * _FOLDS // (window.max() + 1)
    return part


def _trained(x: Floats, is_real: NDArray[np.int64], weight: Floats) -> dict[str, Any]:
    """Return each kind, fitted."""
    return {name: model.fit(x, is_real, **{step: weight}) for name, (model, step) in _kinds().items()}


def _kinds() -> dict[str, tuple[Any, str]]:
    """Return classifiers, each with its parameter name for sample weights.

    They are small, since there are only hundreds of slots.
    """
    boosted = GradientBoostingClassifier(
        n_estimators=100, max_depth=3, learning_rate=0.08, min_samples_leaf=8, subsample=0.7, random_state=0
    )
    forest = RandomForestClassifier(150, min_samples_leaf=4, random_state=0)
    linear = LogisticRegression(C=0.3, max_iter=1000)
    ranks = QuantileTransformer(n_quantiles=50, output_distribution="normal", random_state=0)
    return {
        "boosted trees": (
            make_pipeline(SimpleImputer(keep_empty_features=True), boosted),
            "gradientboostingclassifier__sample_weight",
        ),
        "random forest": (
            make_pipeline(SimpleImputer(keep_empty_features=True), forest),
            "randomforestclassifier__sample_weight",
        ),
        "logistic": (
            make_pipeline(SimpleImputer(keep_empty_features=True), ranks, linear),
            "logisticregression__sample_weight",
        ),
    }


def _area(truth: NDArray[np.int64], score: Floats) -> float:
    """Area under the ROC curve, by ranks (Mann and Whitney)."""
    ranks, real = rankdata(score), truth > 0
    count = int(real.sum())
    return float((ranks[real].sum() - count * (count + 1) / 2) / (count * (truth.size - count)))


def _alone(truth: NDArray[np.int64], value: Floats) -> float:
    known = ~np.isnan(value)
    if len(np.unique(truth[known])) < 2:
        return 0.5
    area = _area(truth[known], value[known])
    return max(area, 1 - area)
