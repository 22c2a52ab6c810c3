"""Saved models: the native forward pass, files, and forecasts sample by sample."""

import json

import numpy as np
import pytest
from emulation import bentpipe
from hypothesis import given, settings
from hypothesis import strategies as st

import bentpipe as bp
from bentpipe.errors import UserError

pytest.importorskip("xgboost")
pytest.importorskip("safetensors")

from safetensors.numpy import load, save

from bentpipe.predict.arrays import native_model, to_arrays
from bentpipe.predict.forecaster import Forecaster, forecast_table
from bentpipe.predict.horizons import parse_horizon
from bentpipe.predict.levels import LEVELS
from bentpipe.predict.models.arima import Arima
from bentpipe.predict.models.column import Column
from bentpipe.predict.models.ensemble import Ensemble
from bentpipe.predict.models.lstm import Lstm
from bentpipe.predict.models.ols_phase import OlsPhase
from bentpipe.predict.models.xgboost_quantiles import XGBoostQuantiles
from bentpipe.predict.registry import MODELS
from bentpipe.predict.score import train
from bentpipe.predict.signals import Session, Signal
from bentpipe.predict.store import KEY, _metadata, load_model, save_model

EPOCH_S = 1_747_000_000.0


def signal(name="ping_rtt_ms", n=1500, seed=1):
    rng = np.random.default_rng(seed)
    t_s = EPOCH_S + np.arange(n)
    slot = np.floor((t_s - 12) / 15).astype(int)
    levels = 30 + 15 * rng.random(slot.max() - slot.min() + 1)
    values = levels[slot - slot.min()] * np.exp(rng.normal(0, 0.02, n))
    values[rng.random(n) < 0.03] = np.nan
    return Signal(name, "slots", (Session(t_s[:700], values[:700]), Session(t_s[800:], values[800:])))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "M.model"
    save_model(train([signal()], "ensemble", parse_horizon("5s")), path)
    return path


@pytest.mark.parametrize(
    "estimator",
    [
        Column(3),
        OlsPhase(),
        OlsPhase(2),
        Arima(lags=8, steps=5, is_mean=True),
        XGBoostQuantiles(n_estimators=20),
        Lstm(units=3, batches=40),
        Lstm(lags=5, batches=20),
        Ensemble([XGBoostQuantiles(n_estimators=5), OlsPhase(2)]),
    ],
)
def test_the_native_pass_equals_the_estimators(estimator):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(1200, 12))
    rows[:, 2] = rng.integers(0, 15, 1200)
    fitted = estimator.fit(rows, rows[:, 0] + rows[:, 3] ** 2 + rng.normal(size=1200))
    native = native_model(to_arrays(fitted))
    own = native.predict(rows.ravel()).reshape(-1, len(LEVELS))
    exact = isinstance(estimator, XGBoostQuantiles)
    np.testing.assert_allclose(own, fitted.predict_quantiles(rows), rtol=0, atol=0 if exact else 1e-12)


def test_members_that_do_not_help_get_no_weight():
    """A random walk: its last value is the best forecast, and what trees learn of it does not last."""
    rng = np.random.default_rng(4)
    walk = np.cumsum(rng.normal(size=1600))
    rows = np.column_stack([walk[:-1], rng.normal(size=(1599, 6))])
    walked = Ensemble([XGBoostQuantiles(n_estimators=20), Column(0)]).fit(rows, walk[1:])
    assert walked.weights_.tolist() == [0.0, 1.0]
    curved = Ensemble([XGBoostQuantiles(n_estimators=20), Column(0)]).fit(rows[:, 1:], np.sign(rows[:, 2]))
    assert curved.weights_[0] > 0.8


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("horizon", ["1s", "next15s"])
def test_every_model_is_stored_and_read_back(tmp_path, name, horizon):
    fitted = train([signal(n=1000)], name, parse_horizon(horizon))
    record = save_model(fitted, tmp_path / "M.model")
    loaded = load_model(tmp_path / "M.model")
    assert loaded.record == record
    assert (record.model, record.signal, record.horizon) == (name, "ping_rtt_ms", horizon)
    assert record.features.slot is not None
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("horizon", ["1s", "5s", "next15s"])
@pytest.mark.parametrize("name", ["ping_rtt_ms", "pop_ping_latency_ms"])
def test_following_a_signal_gives_the_forecasts_of_the_table(tmp_path, horizon, name):
    followed = signal(name)
    save_model(train([followed], "ols-phase", parse_horizon(horizon)), tmp_path / "M.model")
    model = load_model(tmp_path / "M.model")
    table = forecast_table(model, followed)
    forecaster, made = Forecaster(model), {}
    for session in followed.sessions:
        for t_s, value in zip(session.t_s, session.values, strict=True):
            forecaster.push(t_s + (0.25 if name == "ping_rtt_ms" else 0.0), value)
            if (forecast := forecaster.forecast()) is not None:
                made[forecast.made_at_s] = forecast
    quantiles = dict(zip(table["made_at_s"], table.select("^q.*$").rows(), strict=True))
    assert len(made) >= table.height - 2  # the newest step of a session of pings is not over
    for at_s, forecast in made.items():
        assert forecast.values == quantiles[at_s]
        assert list(forecast.values) == sorted(forecast.values)
        assert forecast.to_s > forecast.from_s >= forecast.made_at_s


def test_a_terminal_that_reboots_or_a_clock_that_jumps_ends_the_history(stored):
    forecaster = Forecaster(load_model(stored))
    assert forecaster.forecast() is None
    for t in range(60):
        forecaster.push(EPOCH_S + t, 40.0 + t % 7)
    assert forecaster.forecast() is not None
    forecaster.push(EPOCH_S + 40, 40.0)  # older: left out
    forecaster.push(float("nan"), 40.0)
    assert forecaster.forecast() is not None
    for t in range(100, 105):
        forecaster.push(EPOCH_S + t, 40.0)
    assert forecaster.forecast() is None
    for t in range(105, 140):
        forecaster.push(EPOCH_S + t, float("inf") if t == 120 else -1.0 if t == 121 else 40.0)
    assert forecaster.forecast() is not None
    forecaster.push(EPOCH_S - 5000, 40.0)  # the clock was set back
    assert forecaster.forecast() is None


def test_a_model_of_another_signal_is_refused_by_name(stored):
    with pytest.raises(UserError, match="predicts ping_rtt_ms, and slots is pop_ping_latency_ms"):
        forecast_table(load_model(stored), signal("pop_ping_latency_ms"))


@settings(max_examples=60)
@given(data=st.data())
def test_damaged_models_are_refused_in_one_line(stored, tmp_path_factory, data):
    content = bytearray(stored.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        kind = data.draw(st.sampled_from(["cut", "byte", "header"]))
        if kind == "cut":
            del content[data.draw(st.integers(0, len(content))) :]
        elif content:
            last = min(len(content), 2000) if kind == "header" else len(content)
            content[data.draw(st.integers(0, last - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "M.model"
    path.write_bytes(content)
    refusal = ""
    try:
        model = load_model(path)
    except UserError as error:
        refusal = str(error)
    if refusal:
        assert "\n" not in refusal
        assert str(path) in refusal
        return
    model.native.predict(np.zeros(model.native.columns))  # a changed number: a model all the same


@pytest.mark.parametrize("name", ["0.trees.left", "0.trees.feature", "1.linear.weights", "1.linear.shape"])
def test_arrays_that_do_not_agree_are_refused(stored, tmp_path, name):
    content = stored.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    arrays = load(content)
    changed = [arrays | {name: arrays[name][:-1]}, arrays | {name: arrays[name].astype(np.int16)}]
    wrong = np.full_like(arrays[name], np.nan if "weights" in name else 250)
    changed += [arrays | {name: wrong}, {each: arrays[each] for each in arrays if each != name}]
    for each in changed:
        (tmp_path / "M.model").write_bytes(save(each, metadata=header["__metadata__"]))
        with pytest.raises(UserError, match="expected a model"):
            load_model(tmp_path / "M.model")


@pytest.mark.parametrize("change", [{"step_s": 15.0}, {"covariates": ["rain"]}])
def test_models_of_another_sampling_or_with_features_of_their_own_are_refused(stored, tmp_path, change):
    content = stored.read_bytes()
    record = json.loads(_metadata(content)[KEY])
    record["features"] |= change
    path = tmp_path / "M.model"
    path.write_bytes(save(load(content), metadata={KEY: json.dumps(record)}))
    with pytest.raises(UserError, match="another sampling, or features of its own"):
        load_model(path)


def test_the_commands_train_and_forecast(tmp_path):
    rows = signal(n=900).sessions[0]
    lines = [f"{t:.0f},{v:.3f}" for t, v in zip(rows.t_s, rows.values, strict=True) if np.isfinite(v)]
    file = tmp_path / "pings.csv"
    file.write_text("\n".join(["unix_s,rtt_ms", *lines]) + "\n", encoding="utf-8")
    out = tmp_path / "M.model"
    trained = bentpipe("predict", "train", file, "--model", "ols-phase", "--horizon", "next15s", "-o", out)
    assert "ols-phase of ping_rtt_ms, next15s ahead" in trained.stdout, trained.stderr
    row = json.loads(bentpipe("predict", "forecast", out, file, "--json").stdout)["forecasts"][0]
    assert row["q05"] < row["q50"] < row["q95"]
    assert row["to_s"] - row["from_s"] == 15
    assert " ms, 90 % in " in bentpipe("predict", "forecast", out, file).stdout
    assert bp.Predictor.load(out).forecast(file).height > 600
    for wrong, message in {
        (out,): "DATA or --dish",
        (file, file): "is no model",
        (tmp_path / "none.model", file): "No such file",
    }.items():
        result = bentpipe("predict", "forecast", *wrong)
        assert result.returncode == 2
        assert message in result.stderr
        assert "Traceback" not in result.stderr
