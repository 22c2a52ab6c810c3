"""The drift alarm, and a model that is replaced while a signal is followed."""

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bentpipe as bp
from bentpipe.errors import UserError
from bentpipe.predict.arrays import native_model, to_arrays
from bentpipe.predict.drift import BLOCK, DriftAlarm
from bentpipe.predict.horizons import parse_horizon
from bentpipe.predict.online import WAIT_S, OnlineForecaster, _errors, replay
from bentpipe.predict.score import train
from bentpipe.predict.signals import PINGS, THROUGHPUT, Session, Signal
from bentpipe.predict.store import StoredModel, load_model, record_of, save_model

pytest.importorskip("river")
EPOCH_S = 1_750_000_012.0


def errors(n, factor=1.0, seed=1):
    return np.abs(np.random.default_rng(seed).standard_t(4, n)) * 0.05 * factor


def alarms(values):
    alarm = DriftAlarm()
    return [(number, drift) for number, value in enumerate(values) if (drift := alarm.add(value)) is not None]


@pytest.mark.parametrize(("factor", "within"), [(1.5, 900), (2.0, 480), (4.0, 300)])
def test_a_rise_is_told_once_and_dated(factor, within):
    for seed in range(5):
        alarmed = alarms(np.concatenate([errors(6000, seed=seed), errors(6000, factor, seed=100 + seed)]))
        ((at, drift),) = alarmed
        assert 6000 <= at < 6000 + within
        assert abs(at - drift.outcomes - 6000) < 200
        assert drift.after / drift.before == pytest.approx(factor, rel=0.2)


def test_steady_or_falling_errors_raise_no_alarm():
    for seed in range(10):
        assert alarms(errors(20_000, seed=seed)) == []
        assert alarms(np.concatenate([errors(6000, 3, seed=seed), errors(6000, seed=seed)])) == []


@settings(max_examples=30)
@given(st.lists(st.floats(0, 1e6), min_size=BLOCK, max_size=1200))
def test_any_errors_are_followed(values):
    for _, drift in alarms(values):
        assert drift.after >= drift.before >= 0
        assert drift.outcomes > 0


def slots(n, *, phase=0, jitter=0.02, seed=1):
    """Pings whose level is drawn for each slot, which begins `phase` seconds after the scheduled one."""
    rng = np.random.default_rng(seed)
    t_s = EPOCH_S + np.arange(float(n))
    slot = ((np.arange(n) - phase) // 15).astype(int)
    levels = np.tile([30.0, 60.0], slot.max() + 2)
    return t_s, levels[slot - slot.min()] * np.exp(rng.normal(0, jitter, n))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of slots whose levels take turns: the edge says what comes."""
    t_s, values = slots(6000)
    path = tmp_path_factory.mktemp("drift") / "M.model"
    save_model(train([Signal(PINGS, "before", (Session(t_s, values),))], "ols-phase", parse_horizon("5s")), path)
    return load_model(path)


@pytest.fixture(scope="module")
def moved():
    """The same, whose edges move by 6 s after 4000 s."""
    (t_s, before), (_, after) = slots(16_000, seed=2), slots(16_000, phase=6, seed=3)
    return Signal(PINGS, "moved", (Session(t_s, np.where(t_s < EPOCH_S + 4000, before, after)),))


def test_edges_that_move_are_noticed_and_a_new_model_takes_over(model, moved):
    alone = replay(model, moved, retrains=False)
    assert [change.kind for change in alone] == ["drift"]
    at_s = alone[0].at_s - EPOCH_S
    assert 4000 < at_s < 4900
    drift, replaced = replay(model, moved, retrains=True)
    assert (drift.kind, drift.at_s) == ("drift", alone[0].at_s)
    assert (replaced.kind, replaced.at_s) == ("replaced", alone[0].at_s + WAIT_S)
    assert replaced.after < 0.7 * replaced.before
    assert "replaces the old one" in str(replaced)


def test_a_training_in_the_background_ends_the_same(model, moved):
    online = OnlineForecaster(model, retrains=True)
    (session,) = moved.sessions
    kinds = []
    for t_s, value in zip(session.t_s.tolist(), session.values.tolist(), strict=True):
        kinds += [change.kind for change in online.push(t_s, value)]
        if online._training is not None:
            online._training.result()
    online.close()
    assert kinds == ["drift", "replaced"]
    assert online.model.record.files == ("what was followed",)
    assert online.forecast() is not None


def test_a_model_that_cannot_be_trained_leaves_the_old_one(model, moved):
    online = OnlineForecaster(model, retrains=True, in_background=False)
    (session,) = moved.sessions
    for t_s, value in zip(session.t_s[:200].tolist(), session.values[:200].tolist(), strict=True):
        online.push(t_s, value)
    online._train_at_s = session.t_s[200] + online._trial_s  # after a gap, with too little before it
    (change,) = online.push(session.t_s[200] + online._trial_s, 40.0)
    assert change.kind == "untrained"
    assert "too little data" in str(change)
    assert online.model is model


def test_old_and_missing_samples_are_taken_as_forecasts_take_them(model):
    online = OnlineForecaster(model, retrains=False)
    for t_s in (EPOCH_S, EPOCH_S - 10, float("nan"), EPOCH_S + 1):
        assert online.push(t_s, float("nan")) == []
    assert online.forecast() is None


def test_drift_of_another_signal_is_refused(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{EPOCH_S + t},{40 + t % 7}" for t in range(400)]
    (tmp_path / "pings.csv").write_text("\n".join(["unix_s,rtt_ms", *lines]))
    predictor = bp.Predictor.train("pings.csv", "own.model", model="hold", horizon="1s")
    assert predictor.drift("pings.csv").height == 0
    telemetry = Signal("pop_ping_latency_ms", "telemetry", ())
    with pytest.raises(UserError, match="predicts ping_rtt_ms, and telemetry is pop_ping_latency_ms"):
        replay(model, telemetry, retrains=False)


def test_two_models_of_throughput_are_compared_with_one_floor():
    """A higher floor makes relative errors smaller, and is no better model."""
    rng = np.random.default_rng(1)
    t_s = EPOCH_S + np.arange(3000.0)
    models = []
    for scale in (1.0, 10.0):
        values = np.abs(rng.normal(10 * scale, 4 * scale, len(t_s)))
        fitted = train([Signal(THROUGHPUT, "t", (Session(t_s, values),))], "ols-phase", parse_horizon("5s"))
        models.append(StoredModel(record_of(fitted), native_model(to_arrays(fitted.estimator)), "M"))
    floors = [each.record.features.floor for each in models]
    assert floors[1] > 5 * floors[0]
    bursts = np.where(rng.random(len(t_s)) < 0.4, 0.0, rng.normal(10, 2, len(t_s)).clip(0.1))
    followed = deque(zip(t_s.tolist(), bursts.tolist(), strict=True))
    low, high = (np.mean(_errors(each, followed, EPOCH_S + 1000, max(floors))) for each in models)
    assert low == pytest.approx(high, rel=0.25)


def test_a_clock_that_is_set_back_begins_a_new_history(model):
    online = OnlineForecaster(model, retrains=False)
    t_s, values = slots(400)
    for shift_s in (0.0, -3600.0):
        for at_s, value in zip(t_s.tolist(), values.tolist(), strict=True):
            online.push(at_s + shift_s, value)
        forecast = online.forecast()
        assert forecast is not None
        assert forecast.from_s == pytest.approx(t_s[-1] + shift_s + 4)


def test_too_few_outcomes_tell_nothing(model, moved):
    (session,) = moved.sessions
    short = Signal(PINGS, "short.csv", (Session(session.t_s[:120], session.values[:120]),))
    with pytest.raises(UserError, match=r"short.csv: too little data: \d+ forecasts .*; expected 300"):
        replay(model, short, retrains=False)


def test_a_measurement_that_ends_before_the_training_says_so(model, moved):
    (session,) = moved.sessions
    alarm_s = next(each.at_s for each in replay(model, moved, retrains=False) if each.kind == "drift")
    until = session.t_s < alarm_s + 600
    part = Signal(PINGS, "part.csv", (Session(session.t_s[until], session.values[until]),))
    drift, untrained = replay(model, part, retrains=True)
    assert (drift.kind, untrained.kind) == ("drift", "untrained")
    assert untrained.why == "the measurement ends 10 min after the alarm; expected 30 min or more"
