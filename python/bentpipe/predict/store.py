"""Saved models: arrays and metadata in one safetensors file; never code, never a pickle."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from bentpipe.errors import UserError
from bentpipe.predict.arrays import native_model, to_arrays
from bentpipe.predict.features import FeatureSpec
from bentpipe.predict.horizons import Horizon, parse_horizon
from bentpipe.predict.levels import LEVELS
from bentpipe.predict.signals import SMOOTHING_S, STEP_S
from bentpipe.records import Items, Record, Text

if TYPE_CHECKING:
    from bentpipe._native import PredictorModel
    from bentpipe.predict.score import Fitted
    from bentpipe.predict.signals import Signal

LARGEST_BYTES = 256 << 20
"""Largest file of a model [bytes]; chosen here: trees of an ensemble have about a megabyte."""

KEY = "bentpipe"
LIBRARIES = ("bentpipe", "numpy", "scikit-learn", "xgboost-cpu")


class ModelRecord(Record):
    """Description of a saved model."""

    format: Literal[1] = 1
    """Version of this record."""
    model: Text
    """Name of the model (`bentpipe predict list`)."""
    signal: Text
    """Signal that it was trained on and predicts."""
    horizon: Text
    """Horizon, as ``5s`` or ``next15s``."""
    smoothing_s: float
    """Length of the mean that a sample of the signal is [s]."""
    features: FeatureSpec
    """Its features; `step_s` is the sampling."""
    levels: Items[float]
    """Levels of its quantiles."""
    rows: int = Field(ge=0)
    """Number of rows that it was trained on."""
    span_s: Items[float]
    """First and last time of the training data [s since 1970]."""
    files: Items[str]
    """Names of the training files."""
    versions: dict[str, str]
    """Versions of the libraries that trained it."""


@dataclass(frozen=True)
class StoredModel:
    """A saved model.

    Attributes:
        record: Its description.
        native: Its forward pass.
        name: Name of the file.
    """

    record: ModelRecord
    native: PredictorModel
    name: str

    @property
    def horizon(self) -> Horizon:
        """Its horizon."""
        return parse_horizon(self.record.horizon)

    def check(self, signal: Signal) -> None:
        """Refuse a signal that it was not trained on. Raises `UserError`."""
        if signal.name != self.record.signal:
            raise UserError(
                f"predicts {self.record.signal}, and {signal.source} is {signal.name}",
                where=self.name,
                expected="a signal of the same name",
            )
        if self.record.features.slot is not None and not signal.clock_known:
            raise UserError(
                f"uses the slot clock, and {signal.source} has no time of the day",
                where=self.name,
                expected="a signal with such times, or a model that was trained without",
            )


def save_model(fitted: Fitted, path: str | os.PathLike[str]) -> ModelRecord:
    """Write a model; the file appears at once or not at all. Raises `UserError` where it cannot be written."""
    from safetensors.numpy import save

    record = record_of(fitted)
    content = save(to_arrays(fitted.estimator), metadata={KEY: record.model_dump_json()})
    target = Path(path)
    partial = target.with_name(f".{target.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(target)
    except OSError as error:
        raise UserError(error.strerror or "cannot be written", where=str(path)) from None
    return record


def record_of(fitted: Fitted) -> ModelRecord:
    """Return the description of a trained model."""
    return ModelRecord(
        model=fitted.model,
        signal=fitted.signal,
        horizon=str(fitted.horizon),
        smoothing_s=SMOOTHING_S[fitted.signal],
        features=fitted.spec,
        levels=LEVELS,
        rows=fitted.rows,
        span_s=fitted.span_s,
        files=fitted.files,
        versions={name: _version(name) for name in LIBRARIES},
    )


def load_model(path: str | os.PathLike[str]) -> StoredModel:
    """Read a model. Raises `UserError`: no model, damaged, of another version, or too large."""
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load
    except ImportError:
        raise UserError("needs safetensors", where=str(path), hint="pip install 'bentpipe[predict]'") from None
    where = str(path)
    try:
        size = Path(path).stat().st_size
        if size > LARGEST_BYTES:
            raise UserError(f"{size} bytes", where=where, expected=f"a model of at most {LARGEST_BYTES} bytes")
        content = Path(path).read_bytes()
    except OSError as error:
        raise UserError(error.strerror or "cannot be read", where=where, expected="a model") from None
    expected = "a model that `bentpipe predict train` wrote"
    try:
        arrays = load(content)
        record = ModelRecord.model_validate_json(_metadata(content)[KEY])
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, ValidationError):
        raise UserError("is no model, or of another version", where=where, expected=expected) from None
    if record.levels != LEVELS or record.signal not in SMOOTHING_S:
        raise UserError("has other quantiles or an unknown signal", where=where, expected=expected)
    if record.features.step_s != STEP_S or record.features.covariates:
        raise UserError("has another sampling, or features of its own", where=where, expected=expected)
    try:
        native = native_model(arrays)
        columns = len(record.features.names)
        parse_horizon(record.horizon)
    except UserError as error:
        raise UserError(f"is damaged: {error}", where=where, expected=expected) from None
    if (native.columns, native.quantiles) != (columns, len(LEVELS)):
        raise UserError(f"has {native.columns} features, and names {columns}", where=where, expected=expected)
    return StoredModel(record, native, Path(path).name)


def _metadata(content: bytes) -> dict[str, Any]:
    """Return the metadata of a safetensors file that was loaded: its header is JSON behind a length of 8 bytes."""
    length = int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8 : 8 + length])["__metadata__"]
    return header


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"
