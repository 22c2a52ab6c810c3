"""The models by name: what each is, what it uses, where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError, did_you_mean, shown

if TYPE_CHECKING:
    from bentpipe.predict.features import FeatureSpec
    from bentpipe.predict.horizons import Horizon


@dataclass(frozen=True)
class ModelEntry:
    """A model.

    Attributes:
        name: Its name.
        description: What it predicts.
        features: What it uses.
        source: Where it is from.
        is_naive: Whether it learns nothing but the spread of its errors.
    """

    name: str
    description: str
    features: str
    source: str
    is_naive: bool = False


MODELS = {
    entry.name: entry
    for entry in (
        ModelEntry("hold", "the last sample", "last sample", "baseline", is_naive=True),
        ModelEntry("ewma", "exponentially weighted mean, weight 0.5", "all samples", "baseline", is_naive=True),
        ModelEntry("mean-60s", "mean of the last minute", "60 s", "baseline", is_naive=True),
        ModelEntry(
            "slot-mean", "mean of the slot so far; without a clock, of 15 s", "slot clock", "baseline", is_naive=True
        ),
        ModelEntry("ols-phase", "least squares for each second of the slot", "all features", "bentpipe"),
        ModelEntry("arima", "ARIMA(2,1,2) on logarithms", "15 samples", "Box and Jenkins 1970"),
        ModelEntry("xgboost", "gradient-boosted trees, one set for each quantile", "all features", "T3P section 4"),
        ModelEntry("lstm", "long short-term memory over 15 s, and least squares", "all features", "T3P section 4"),
        ModelEntry("ensemble", "weighted mean of xgboost, ols-phase, hold and ewma", "all features", "bentpipe"),
    )
}
"""Every model."""

DEFAULT_MODELS = ("hold", "ewma", "mean-60s", "slot-mean", "ols-phase", "arima", "xgboost", "lstm", "ensemble")
"""Models of ``predict score`` by default."""


def find_model(name: str) -> ModelEntry:
    """Return the entry of a model. Raises `UserError`."""
    if name not in MODELS:
        raise UserError(f"{shown(name)}{did_you_mean(name, MODELS)}", where="models", expected=", ".join(MODELS))
    return MODELS[name]


def make_model(name: str, spec: FeatureSpec, horizon: Horizon) -> Any:  # noqa: ANN401 - any estimator
    """Return an estimator that is not fitted. Raises `UserError`: unknown, or without its library."""
    find_model(name)
    try:
        return _make(name, spec, horizon)
    except ImportError as error:
        raise UserError(
            f"needs {(error.name or 'a library').partition('.')[0]}", where=name, hint="pip install 'bentpipe[predict]'"
        ) from None


def _make(name: str, spec: FeatureSpec, horizon: Horizon) -> Any:  # noqa: ANN401, PLR0911 - one for each model
    from bentpipe.predict.models.arima import Arima
    from bentpipe.predict.models.column import Column
    from bentpipe.predict.models.ensemble import Ensemble
    from bentpipe.predict.models.lstm import Lstm
    from bentpipe.predict.models.ols_phase import OlsPhase
    from bentpipe.predict.models.xgboost_quantiles import XGBoostQuantiles

    names = spec.names
    has_clock = spec.slot is not None
    if name in (columns := {"hold": "lag_0", "ewma": "ewma_0.5", "mean-60s": "mean_60s"}):
        return Column(names.index(columns[name]))
    if name == "slot-mean":
        return Column(names.index("slot_mean" if has_clock else "mean_15s"))
    if name == "arima":
        return Arima(lags=spec.lags, steps=horizon.steps(spec.step_s), is_mean=horizon.is_mean)
    if name == "lstm":
        return Lstm(spec.lags)
    phases = OlsPhase(names.index("slot_since_s") if has_clock else None)
    if name == "ols-phase":
        return phases
    import xgboost  # noqa: F401 - so that its absence is found here

    if name == "xgboost":
        return XGBoostQuantiles()
    return Ensemble([XGBoostQuantiles(), phases, *(Column(names.index(columns[each])) for each in ("hold", "ewma"))])
