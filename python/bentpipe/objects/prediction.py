"""Predictors of latency and throughput, as Python users have them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.objects import arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import polars as pl

    from bentpipe.objects.arguments import DurationLike, FileLike
    from bentpipe.predict.forecaster import Forecast
    from bentpipe.predict.handovers import HandoverModel
    from bentpipe.predict.store import StoredModel


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
        bentpipe.errors.UserError: ping.txt: too little data: ...; expected 200 or more, without gaps; try ...
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


def handover_model(data: FileLike) -> HandoverModel:
    """Learn from pings when handovers come, how large their steps are, and how long their gaps.

    Args:
        data: Pings with slots: a log, a table, or a measured Run.

    Raises:
        UserError: Unreadable data, or no slots in them.

    Example:
        >>> import bentpipe as bp
        >>> bp.handover_model("ping.txt")
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: ping.txt: ...; expected pings with slots, and the time of the day
    """
    from bentpipe.predict.handovers import learn_handovers

    return learn_handovers(arguments.file(data, "data"))


class Predictor:
    """A trained model of one signal and one horizon. `Predictor.train` and `Predictor.load` make one.

    Attributes:
        record: What it was trained on: signal, horizon, sampling, features, span, library versions.

    Example:
        >>> import bentpipe as bp
        >>> bp.Predictor.load("none.model")
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: none.model: No such file or directory; expected a model
    """

    def __init__(self, stored: StoredModel) -> None:
        """Take a stored model; users call `train` or `load`."""
        self._stored = stored
        self.record = stored.record

    @staticmethod
    def train(
        data: FileLike | Sequence[FileLike],
        out: FileLike,
        *,
        model: str = "xgboost",
        target: str = "latency",
        horizon: str = "5s",
        column: str | None = None,
    ) -> Predictor:
        r"""Train a model on whole files and write it to `out`. Needs ``bentpipe[predict]``.

        Args:
            data: Files or folders of one signal.
            out: The file, such as ``M.model``: arrays and metadata, no code.
            model: A name from `predictors`.
            target: ``latency`` or ``throughput``.
            horizon: ``5s``, or ``next15s`` for a mean.
            column: Column of a Parquet file; None: that of the signal.

        Raises:
            UserError: Unreadable data, signals of two kinds, too little data, an unknown model or horizon.

        Example:
            >>> import math
            >>> from pathlib import Path
            >>> import bentpipe as bp
            >>> rows = [f"{1747000000 + t},{40 + 9 * math.sin(t)}" for t in range(600)]
            >>> _ = Path("pings.csv").write_text("\n".join(["unix_s,rtt_ms", *rows]))
            >>> predictor = bp.Predictor.train("pings.csv", "M.model", model="hold", horizon="1s")
            >>> predictor
            <Predictor hold: ping_rtt_ms, 1s>
        """
        from bentpipe.predict.horizons import parse_horizon
        from bentpipe.predict.score import train
        from bentpipe.predict.signals import TARGETS, read_signal
        from bentpipe.predict.store import load_model, save_model

        kind = arguments.choice(target, "target", TARGETS)
        signals = [read_signal(file, kind, column) for file in _files(data, "data")]
        path = arguments.file(out, "out")
        save_model(train(signals, model, parse_horizon(horizon)), path)
        return Predictor(load_model(path))

    @staticmethod
    def load(file: FileLike) -> Predictor:
        """Read a model that `train` wrote. Raises `UserError`: no model, or damaged.

        Example:
            >>> import bentpipe as bp
            >>> bp.Predictor.load("ping.txt")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: ping.txt: is no model, or of another version; expected a model ...
        """
        from bentpipe.predict.store import load_model

        return Predictor(load_model(arguments.file(file, "file")))

    def forecast(self, data: FileLike, column: str | None = None) -> pl.DataFrame:
        r"""Return its forecasts at every second of a file: those that it would have made by then.

        Returns:
            Columns `made_at_s`, `from_s`, `to_s` [s since 1970], and quantiles `q05` … `q95` in ms or Mbit/s, with
            margins that keep 90 % between the outer two.

        Raises:
            UserError: Unreadable data, or another signal than the model's.

        Example:
            >>> import math
            >>> from pathlib import Path
            >>> import bentpipe as bp
            >>> rows = [f"{1747000000 + t},{40 + 9 * math.sin(t)}" for t in range(600)]
            >>> _ = Path("pings.csv").write_text("\n".join(["unix_s,rtt_ms", *rows]))
            >>> predictor = bp.Predictor.train("pings.csv", "M.model", model="hold", horizon="1s")
            >>> predictor.forecast("pings.csv").columns[:4]
            ['made_at_s', 'from_s', 'to_s', 'q05']
        """
        from bentpipe.predict.forecaster import forecast_table
        from bentpipe.predict.signals import read_signal, target_of

        file = arguments.file(data, "data")
        return forecast_table(self._stored, read_signal(file, target_of(self.record.signal), column))

    def drift(self, data: FileLike, *, retrain: bool = False, column: str | None = None) -> pl.DataFrame:
        r"""Return when the errors of its medians rose while a file is followed. Needs ``bentpipe[predict]``.

        Args:
            data: A measurement that it was not trained on.
            retrain: After an alarm and half an hour more, train another model on what was seen until then; it replaces
                this one if it is better on the newest ten minutes, which it was not trained on.
            column: Column of a Parquet file; None: that of the signal.

        Returns:
            Columns `at_s` [s since 1970], `kind` (``drift``, ``replaced``, ``kept``, ``untrained``), the typical errors
            `before` and `after` (relative), and `why`.

        Raises:
            UserError: Unreadable data, another signal than the model's, or a library is missing.

        Example:
            >>> import math
            >>> from pathlib import Path
            >>> import bentpipe as bp
            >>> rows = [f"{1747000000 + t},{40 + (1 + t // 3000) * math.sin(t)}" for t in range(6000)]
            >>> _ = Path("pings.csv").write_text("\n".join(["unix_s,rtt_ms", *rows]))
            >>> predictor = bp.Predictor.train("pings.csv", "M.model", model="hold", horizon="1s")
            >>> predictor.drift("pings.csv")["kind"].to_list()
            ['drift']
        """
        import polars as pl

        from bentpipe.predict.online import replay
        from bentpipe.predict.signals import read_signal, target_of

        signal = read_signal(arguments.file(data, "data"), target_of(self.record.signal), column)
        changes = replay(self._stored, signal, retrains=retrain)
        schema = {"at_s": pl.Float64, "kind": pl.String, "before": pl.Float64, "after": pl.Float64, "why": pl.String}
        return pl.DataFrame([asdict(each) for each in changes], schema=schema).with_columns(
            pl.col("before", "after").fill_nan(None)
        )

    def follow(
        self, host: str | None = None, *, duration: DurationLike | None = None, retrain: bool = False
    ) -> Iterator[Forecast]:
        r"""Yield a forecast after each second of a terminal's telemetry, once there is enough history.

        Args:
            host: Address of the terminal; None: the usual one.
            duration: Duration; None: for ever.
            retrain: Whether to train another model after errors have risen (`Predictor.drift`).

        Raises:
            UserError: The extra ``dish`` is not installed, or the model is not of telemetry.

        Example:
            >>> import math
            >>> from pathlib import Path
            >>> import bentpipe as bp
            >>> rows = [f"{1747000000 + t},{40 + 9 * math.sin(t)}" for t in range(600)]
            >>> _ = Path("pings.csv").write_text("\n".join(["unix_s,rtt_ms", *rows]))
            >>> predictor = bp.Predictor.train("pings.csv", "M.model", model="hold", horizon="1s")
            >>> next(predictor.follow())
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: M.model: predicts ping_rtt_ms, which a terminal does not report; expected ...
        """
        from bentpipe.predict.live import follow_dish

        until_s = None if duration is None else arguments.seconds(duration, "duration")
        return follow_dish(self._stored, arguments.optional_text(host, "host"), until_s, retrains=bool(retrain))

    def __repr__(self) -> str:
        """Return the model, its signal and its horizon."""
        return f"<Predictor {self.record.model}: {self.record.signal}, {self.record.horizon}>"


def _files(value: object, where: str) -> list[Path]:
    several = list(value) if isinstance(value, (list, tuple)) else [value]
    return [arguments.file(each, where) for each in several]
