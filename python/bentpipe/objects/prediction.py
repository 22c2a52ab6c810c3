"""Predictors of latency and throughput, as Python users have them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.objects import arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import polars as pl

    from bentpipe.objects.arguments import FileLike


def predictors() -> pl.DataFrame:
    """Return the models that predict latency and throughput: `name`, `description`, `features`, `source`, `is_naive`.

    Example:
        >>> import bentpipe as bp
        >>> bp.predictors()["name"].to_list()[:2]
        ['hold', 'ewma']
    """
    import polars as pl

    from bentpipe.predict.registry import MODELS

    return pl.DataFrame([asdict(entry) for entry in MODELS.values()])


def score_predictors(
    data: FileLike | Sequence[FileLike],
    *,
    target: str = "latency",
    horizons: Sequence[str] = ("1s", "5s", "15s"),
    models: Sequence[str] | None = None,
    test: FileLike | Sequence[FileLike] = (),
    column: str | None = None,
    on_progress: Callable[[float], None] = lambda _: None,
) -> pl.DataFrame:
    """Train models on measurements and score them on later ones. Needs ``bentpipe[predict]``.

    Args:
        data: Files or folders of one signal: a terminal's recordings, ping logs, tests of throughput.
        target: ``latency`` or ``throughput``.
        horizons: ``5s``: the sample 5 s later; ``next15s``: the mean of the next 15 s.
        models: Names from `predictors`; None: all. ``hold`` is always scored.
        test: Files to score on, of which nothing is trained; without them, the last 30 % of each file of `data`.
        column: Column of a Parquet file; None: that of the signal.
        on_progress: Called with the share that is done.

    Returns:
        One row per file, horizon and model: `data`, `target`, `horizon`, `model`, `mape` [%], `rmse`, `within_5`,
        `within_10` [%], `crps`, `coverage_90` [%], `n`. Errors are in ms or Mbit/s.

    Raises:
        UserError: Unreadable data, signals of two kinds, too little data, an unknown model or horizon.

    Example:
        >>> import bentpipe as bp
        >>> bp.score_predictors("ping.txt", horizons=["1s"])
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: ping.txt: too little data: ... rows of 1s; expected 200 or more, without gaps
    """
    import polars as pl

    from bentpipe.predict.horizons import parse_horizon
    from bentpipe.predict.registry import DEFAULT_MODELS
    from bentpipe.predict.score import score
    from bentpipe.predict.signals import TARGETS, read_signal

    kind = arguments.choice(target, "target", TARGETS)
    files = _files(data, "data")
    if not files:
        raise UserError("no file", where="data", expected="one or more")
    parsed = [parse_horizon(text) for text in horizons]
    names = DEFAULT_MODELS if models is None else tuple(models)
    scores = score(
        [read_signal(file, kind, column) for file in files],
        parsed,
        names,
        [read_signal(file, kind, column) for file in _files(test, "test")],
        on_progress,
    )
    return pl.DataFrame([each.to_dict() for each in scores])


def _files(value: object, where: str) -> list[Path]:
    several = list(value) if isinstance(value, (list, tuple)) else [value]
    return [arguments.file(each, where) for each in several]
