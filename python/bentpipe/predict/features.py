"""Features of a signal: over a table, and sample by sample, by the same native code.

A row depends on its sample and earlier ones only. Definitions: `crates/signals`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from bentpipe import _native
from bentpipe.errors import UserError
from bentpipe.records import Items, Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray


class SlotClock(Record):
    """A clock of reconfigurations: an edge at each time t with (t − `phase_s`) a multiple of `period_s`."""

    period_s: float
    """Time between edges [s]; 15 in Starlink."""
    phase_s: float
    """Time of an edge, in the time of the samples [s]."""


class FeatureSpec(Record):
    """What a row of features consists of.

    With `relative`, a level x is ln(x + `floor`) less that of the reference, so that a model of one site fits another.

    Example:
        >>> FeatureSpec(lags=2, windows_s=(5.0,)).names
        ('lag_0', 'lag_1', 'mean_5s', 'min_5s', 'max_5s', 'sd_5s', 'age_s')
    """

    step_s: float = 1.0
    """Step of the signal [s]."""
    lags: Annotated[int, Field(ge=1, le=4096)] = 15
    """Number of newest samples."""
    windows_s: Items[float] = ()
    """Lengths of trailing windows [s]; of each: mean, minimum, maximum and standard deviation."""
    ewma: Items[float] = ()
    """Weights of the newest sample in exponentially weighted means."""
    slot: SlotClock | None = None
    """Clock of reconfigurations; None: no features of slots."""
    earlier_slots: Annotated[int, Field(ge=0, le=256)] = 0
    """Number of earlier slots whose means are features."""
    time_of_day: bool = False
    """Whether the time of day (UTC) is a feature."""
    covariates: Items[str] = ()
    """Names of further columns, whose values come with each sample."""
    floor: float = 0.0
    """Added to values before logarithms, in the signal's unit."""
    relative: bool = False
    """Whether levels are ratios to the reference."""
    reference_s: float = 0.0
    """Length of the window whose mean is the reference [s]; 0: the last sample."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns. Raises `UserError` where the specification is out of range."""
        return tuple(_native.feature_names(self))


class FeatureStream:
    """Computes the row of features at each sample of a signal.

    Steps without a sample hold the last value; after 30 s without one the history starts afresh.

    Example:
        >>> stream = FeatureStream(FeatureSpec(lags=2))
        >>> stream.push(0.0, 30.0).tolist(), stream.push(1.0, 40.0).tolist()
        ([30.0, 30.0, 0.0], [40.0, 30.0, 0.0])
        >>> stream.is_ready
        True
    """

    def __init__(self, spec: FeatureSpec) -> None:
        """Create a stream without history. Raises `UserError` where the specification is out of range."""
        self.spec = spec
        self._native = _native.FeatureStream(spec)

    def push(self, t_s: float, value: float, covariates: Sequence[float] = ()) -> NDArray[np.float64]:
        """Add the sample of a step and return its row, shape (columns,).

        Args:
            t_s: Time [s], a step or more after the last one.
            value: Sample; NaN: the step has none.
            covariates: Values of the specification's covariates; may be NaN.

        Raises:
            UserError: The time is not ascending, or the value is infinite (or negative, if `relative`).
        """
        return self._native.push(t_s, value, list(covariates))

    @property
    def is_ready(self) -> bool:
        """Whether the newest row has as many samples behind it as it has lags."""
        return self._native.is_ready

    @property
    def reference(self) -> float:
        """Reference of the newest row, in the signal's unit; NaN before the first sample."""
        return self._native.reference

    def value_of(self, prediction: float) -> float:
        """Return the value that a prediction at the newest row stands for, in the signal's unit."""
        return self._native.value_of(prediction)


def features_table(
    spec: FeatureSpec, t_s: ArrayLike, values: ArrayLike, covariates: ArrayLike | None = None
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Compute the rows of a signal: what a `FeatureStream` returns for its samples in turn, bit for bit.

    Args:
        spec: Features.
        t_s: Ascending times [s], shape (n,).
        values: Samples, shape (n,); NaN: none.
        covariates: Shape (n, covariates).

    Returns:
        Rows, shape (n, columns); whether each has enough history, shape (n,); references, in the signal's unit, (n,).

    Raises:
        UserError: A time is not ascending, a value infinite (or negative, if `relative`), or shapes do not agree.

    Example:
        >>> rows, is_ready, reference = features_table(FeatureSpec(lags=2), [0, 1, 2], [30, 40, 50])
        >>> rows[2].tolist(), is_ready.tolist(), reference.tolist()
        ([50.0, 40.0, 0.0], [False, True, True], [30.0, 40.0, 50.0])
    """
    times, samples = (np.ascontiguousarray(each, dtype=np.float64) for each in (t_s, values))
    if times.ndim != 1 or times.shape != samples.shape:
        raise UserError(f"times of shape {times.shape} and values of {samples.shape}; expected one time per value")
    others = np.zeros((len(times), 0)) if covariates is None else np.asarray(covariates, dtype=np.float64)
    if others.shape != (len(times), len(spec.covariates)):
        raise UserError(
            f"covariates of shape {others.shape}; expected {(len(times), len(spec.covariates))}", where="covariates"
        )
    columns = len(spec.names)
    rows, is_ready, reference = _native.features_table(spec, times, samples, np.ascontiguousarray(others).ravel())
    return rows.reshape(len(times), columns), is_ready, reference
