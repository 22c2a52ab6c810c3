"""Trained estimators as arrays: what is stored, and what the native forward pass takes.

A model in a file is arrays of numbers and never code. `to_arrays` needs the libraries that trained the estimator;
`native_model` needs none of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe._native import PredictorModel
from bentpipe.errors import UserError
from bentpipe.predict.levels import LEVELS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[Any]]

MOST_MEMBERS = 16
"""Most members of a mean."""


@dataclass(frozen=True)
class TreeArrays:
    """Boosted trees; nodes of all trees stand one after the other.

    Attributes:
        columns: Number of features of a row.
        feature: Feature of each node.
        threshold: Below it a row goes left; of a leaf its value.
        left, right: Children of each node, after their parent; left is 0 of a leaf.
        missing_left: 1 where a missing feature goes left.
        root: First node of each tree.
        output: Quantile of each tree.
        base: Value of each quantile without trees.
    """

    columns: int
    feature: NDArray[np.uint32]
    threshold: NDArray[np.float32]
    left: NDArray[np.uint32]
    right: NDArray[np.uint32]
    missing_left: NDArray[np.uint8]
    root: NDArray[np.uint32]
    output: NDArray[np.uint32]
    base: NDArray[np.float32]


@dataclass(frozen=True)
class MemoryArrays:
    """A long short-term memory, as `bentpipe.predict.models.lstm.Lstm` learns it; matrices in row order.

    Attributes:
        lags: Number of the first columns that are lags.
        units: Units of the state.
        mean, scale: Of the features, shape (columns,).
        target: Centre and spread of the target.
        gates: (2 + units) × (4 · units) weights.
        head: (units + columns + 1) × levels weights.
    """

    lags: int
    units: int
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    target: NDArray[np.float64]
    gates: NDArray[np.float64]
    head: NDArray[np.float64]


MEMORY_ARRAYS = ("mean", "scale", "target", "gates", "head")

TREE_TYPES = {
    "feature": np.uint32,
    "threshold": np.float32,
    "left": np.uint32,
    "right": np.uint32,
    "missing_left": np.uint8,
    "root": np.uint32,
    "output": np.uint32,
    "base": np.float32,
}


def to_arrays(estimator: Any, prefix: str = "") -> Arrays:  # noqa: ANN401 - any estimator of ours
    """Return a fitted estimator as arrays; names begin with `prefix`."""
    from bentpipe.predict.models.ensemble import Ensemble
    from bentpipe.predict.models.lstm import Lstm
    from bentpipe.predict.models.ols_phase import OlsPhase
    from bentpipe.predict.models.xgboost_quantiles import XGBoostQuantiles

    if isinstance(estimator, Ensemble):
        arrays: Arrays = {"weights": np.ascontiguousarray(estimator.weights_, dtype=np.float64)}
        for number, member in enumerate(estimator.members_):
            arrays |= to_arrays(member, f"{prefix}{number}.")
        return arrays
    if isinstance(estimator, XGBoostQuantiles):
        trees = _trees(estimator)
        return {f"{prefix}trees.{name}": getattr(trees, name) for name in TREE_TYPES} | {
            f"{prefix}trees.columns": np.array([trees.columns], dtype=np.int64)
        }
    columns = estimator.n_features_in_
    if isinstance(estimator, Lstm):
        memory = {
            "shape": np.array([estimator.length_, estimator.units], dtype=np.int64),
            "mean": estimator.mean_,
            "scale": estimator.scale_,
            "target": np.array([estimator.center_, estimator.spread_]),
            "gates": estimator.gates_,
            "head": estimator.head_,
        }
        return {f"{prefix}lstm.{name}": np.ascontiguousarray(each) for name, each in memory.items()}
    if isinstance(estimator, OlsPhase):
        weights, errors = estimator.weights_, estimator.errors_
        phase = -1 if estimator.phase_column is None else estimator.phase_column
    else:  # a point that is a weighted sum of features
        units = np.vstack([np.eye(columns), np.zeros(columns)])
        points = estimator._point(units)
        weights, errors, phase = np.append(points[:-1] - points[-1], points[-1])[None], estimator.errors_[None], -1
    shape = np.array([columns, phase], dtype=np.int64)
    return {
        f"{prefix}linear.shape": shape,
        f"{prefix}linear.weights": np.ascontiguousarray(weights, dtype=np.float64),
        f"{prefix}linear.errors": np.ascontiguousarray(errors, dtype=np.float64),
    }


def native_model(arrays: Mapping[str, NDArray[Any]]) -> PredictorModel:
    """Make the native model of arrays from `to_arrays`. Raises `UserError` where they are none."""
    members = sorted(
        {name.partition(".")[0] for name in arrays if name[:1].isdigit()}, key=lambda each: (len(each), each)
    )
    if members:
        if len(members) > MOST_MEMBERS:
            raise UserError(f"{len(members)} members", where="model", expected=f"at most {MOST_MEMBERS}")
        weights = arrays.get("weights")
        if weights is None or weights.dtype != np.float64 or weights.shape != (len(members),):
            raise UserError(
                "has no array weights of one number for each member", where="model", expected="a model of this version"
            )
        parts = [
            _single({name.partition(".")[2]: each for name, each in arrays.items() if name.startswith(f"{member}.")})
            for member in members
        ]
        return PredictorModel.mean(parts, weights.tolist())
    return _single(arrays)


def _part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): each for name, each in arrays.items() if name.startswith(prefix)}


def _single(arrays: Mapping[str, NDArray[Any]]) -> PredictorModel:
    def take(name: str, kind: Any) -> NDArray[Any]:  # noqa: ANN401 - a NumPy type
        if name not in arrays or arrays[name].dtype != kind:
            raise UserError(f"has no array {name} of type {np.dtype(kind)}", where="model")
        return np.ascontiguousarray(arrays[name]).ravel()

    if "trees.columns" in arrays:
        columns = take("trees.columns", np.int64)
        if len(columns) != 1 or not 0 < columns[0] <= 4096:
            raise UserError("trees.columns", where="model", expected="one number from 1 to 4096")
        return PredictorModel.trees(
            TreeArrays(int(columns[0]), **{name: take(f"trees.{name}", kind) for name, kind in TREE_TYPES.items()})
        )
    if "lstm.shape" in arrays:
        shape = take("lstm.shape", np.int64)
        if len(shape) != 2 or not (0 < shape[0] <= 4096 and 0 < shape[1] <= 256):
            raise UserError("lstm.shape", where="model", expected="a number of lags up to 4096, and of units up to 256")
        parts = {name: take(f"lstm.{name}", np.float64) for name in MEMORY_ARRAYS}
        return PredictorModel.lstm(len(LEVELS), MemoryArrays(int(shape[0]), int(shape[1]), **parts))
    shape = take("linear.shape", np.int64)
    if len(shape) != 2 or not 0 < shape[0] <= 4096 or not -1 <= shape[1] < shape[0]:
        raise UserError("linear.shape", where="model", expected="a number of columns up to 4096, and a column or -1")
    phase = None if shape[1] < 0 else int(shape[1])
    weights, errors = take("linear.weights", np.float64), take("linear.errors", np.float64)
    return PredictorModel.linear(int(shape[0]), len(LEVELS), phase, weights, errors)


def _trees(estimator: Any) -> TreeArrays:  # noqa: ANN401 - XGBoostQuantiles
    """Return XGBoost's trees (its JSON schema: ``doc/model.schema`` of the library)."""
    learner = json.loads(bytes(estimator.booster_.save_raw("json")))["learner"]
    model = learner["gradient_booster"]["model"]
    parts: dict[str, list[NDArray[Any]]] = {
        name: [] for name in ("feature", "threshold", "left", "right", "missing_left")
    }
    roots, first = [], 0
    for tree in model["trees"]:
        left = np.array(tree["left_children"], dtype=np.int64)
        right = np.array(tree["right_children"], dtype=np.int64)
        roots.append(first)
        parts["left"].append(np.where(left < 0, 0, left + first))
        parts["right"].append(np.where(left < 0, 0, right + first))
        parts["feature"].append(np.where(left < 0, 0, np.array(tree["split_indices"], dtype=np.int64)))
        parts["threshold"].append(np.array(tree["split_conditions"], dtype=np.float32))
        parts["missing_left"].append(np.array(tree["default_left"], dtype=np.uint8))
        first += len(left)
    base = np.atleast_1d(np.array(json.loads(learner["learner_model_param"]["base_score"]), dtype=np.float32))
    joined = {name: np.concatenate(each).astype(TREE_TYPES[name]) for name, each in parts.items()}
    return TreeArrays(
        columns=int(learner["learner_model_param"]["num_feature"]),
        root=np.array(roots, dtype=np.uint32),
        output=np.array(model["tree_info"], dtype=np.uint32),
        base=np.broadcast_to(base, len(LEVELS)).copy(),
        **joined,
    )
