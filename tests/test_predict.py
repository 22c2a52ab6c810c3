"""Signals, horizons, clocks, estimators and scores of predictors."""

import json

import numpy as np
import polars as pl
import pytest
from emulation import bentpipe
from hypothesis import given
from hypothesis import strategies as st

import bentpipe as bp
from bentpipe.errors import UserError

pytest.importorskip("sklearn")
pytest.importorskip("xgboost")

from sklearn.utils.estimator_checks import parametrize_with_checks

from bentpipe.predict.arrays import native_model, to_arrays
from bentpipe.predict.clock import find_clock
from bentpipe.predict.conformal import with_margins
from bentpipe.predict.dataset import feature_spec, make_rows, to_values
from bentpipe.predict.horizons import Horizon, parse_horizon
from bentpipe.predict.levels import LEVELS
from bentpipe.predict.models.arima import Arima
from bentpipe.predict.models.column import Column
from bentpipe.predict.models.ensemble import Ensemble
from bentpipe.predict.models.lstm import Lstm
from bentpipe.predict.models.ols_phase import OlsPhase
from bentpipe.predict.models.xgboost_quantiles import XGBoostQuantiles
from bentpipe.predict.score import crps, fit, score
from bentpipe.predict.signals import Session, Signal, on_grid, read_signal
from bentpipe.predict.store import StoredModel, record_of

EPOCH_S = 1_747_000_000.0


@parametrize_with_checks(
    [
        Column(),
        OlsPhase(),
        Arima(lags=1),
        XGBoostQuantiles(n_estimators=3),
        Lstm(batches=5),
        Ensemble([XGBoostQuantiles(n_estimators=3), OlsPhase()]),
    ],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": "trees are grown on random parts of the rows"
    },
)
def test_estimators_follow_scikit_learns_contract(estimator, check):
    check(estimator)


def slots(n=3600, seed=1, phase_s=12.0, start_s=EPOCH_S):
    """RTTs with a level of their own in each slot of 15 s."""
    rng = np.random.default_rng(seed)
    t_s = start_s + np.arange(n)
    slot = np.floor((t_s - phase_s) / 15).astype(int)
    levels = 30 + 15 * rng.random(slot.max() - slot.min() + 1)
    values = levels[slot - slot.min()] * np.exp(rng.normal(0, 0.02, n))
    return Signal("ping_rtt_ms", f"slots{seed}", (Session(t_s, values),))


def walk(n=3600, seed=1):
    rng = np.random.default_rng(seed)
    return Signal(
        "ping_rtt_ms", "walk", (Session(EPOCH_S + np.arange(n), 40 * np.exp(0.01 * rng.normal(size=n).cumsum())),)
    )


def test_the_clock_of_slots_is_found_and_none_where_there_is_none():
    for phase_s in (0.0, 7.0, 12.0):
        clock = find_clock([slots(phase_s=phase_s)])
        assert clock is not None
        assert min(abs(clock.phase_s - phase_s), 15 - abs(clock.phase_s - phase_s)) < 0.6
    assert [find_clock([walk(seed=seed)]) for seed in range(20)] == [None] * 20
    assert find_clock([]) is None


@given(
    samples=st.lists(st.tuples(st.floats(0.001, 60), st.floats(0, 1e3) | st.just(np.nan)), min_size=1, max_size=60),
)
def test_a_grid_has_regular_times_and_values_of_its_samples(samples):
    steps, values = (np.array(each) for each in zip(*samples, strict=True))
    t_s = EPOCH_S + steps.cumsum()
    for session in on_grid(t_s, values):
        assert np.allclose(np.diff(session.t_s), 1.0)
        known = session.values[np.isfinite(session.values)]
        assert len(known) >= 2
        assert known.min() >= np.nanmin(values) - 1e-9
        assert known.max() <= np.nanmax(values) + 1e-9


@pytest.mark.parametrize("text", ["", "0s", "-1s", "next", "soon", "1e9s", "1.5s", "nan"])
def test_horizons_that_make_no_sense_are_refused(text):
    with pytest.raises(UserError, match="horizon"):
        parse_horizon(text)


def test_targets_are_later_samples_and_never_span_a_gap():
    values = np.array([1.0, 2.0, np.nan, 4.0, 5.0, 6.0])
    session = Session(np.arange(6.0), values)
    np.testing.assert_equal(Horizon(1.0).targets(session, 1.0), [2, np.nan, 4, 5, 6, np.nan])
    np.testing.assert_equal(
        Horizon(2.0, is_mean=True).targets(session, 1.0), [np.nan, np.nan, 4.5, 5.5, np.nan, np.nan]
    )
    assert Horizon(5.0).window_s(10.0, 1.0) == (15.0, 16.0)
    assert Horizon(15.0, is_mean=True).window_s(10.0, 1.0) == (11.0, 26.0)


def test_what_a_target_stands_for_is_what_came():
    signal = slots()
    spec = feature_spec(signal.name, find_clock([signal]))
    rows = make_rows(signal, spec, Horizon(5.0))
    np.testing.assert_allclose(to_values(rows.target, rows.reference, spec), rows.actual)


def test_models_beat_hold_on_slots_and_no_model_does_on_a_walk():
    by_slots = {each.model: each for each in score([slots(), slots(seed=2)], [Horizon(5.0)])}
    assert by_slots["xgboost"].mape < 0.9 * by_slots["hold"].mape
    assert all(each.crps > 0 and each.n == by_slots["hold"].n for each in by_slots.values())
    by_walk = [each for each in score([walk()], [Horizon(5.0)], ["xgboost", "ols-phase"]) if each.model != "hold"]
    hold = score([walk()], [Horizon(5.0)], ["hold"])[0]
    assert all(each.mape > 0.97 * hold.mape for each in by_walk)


def test_scores_of_test_files_do_not_depend_on_what_comes_after_the_scored_rows():
    train, test = [slots()], slots(seed=3)
    session = test.sessions[0]
    cut = Signal(test.name, test.source, (Session(session.t_s[:2700], session.values[:2700]),))
    changed = np.concatenate([session.values[:2700], 3 * session.values[2700:]])
    spec = feature_spec(test.name, find_clock(train))
    whole = make_rows(Signal(test.name, test.source, (Session(session.t_s, changed),)), spec, Horizon(5.0))
    part = make_rows(cut, spec, Horizon(5.0))
    np.testing.assert_array_equal(whole.features[: len(part)], part.features)


def test_intervals_with_margins_cover_what_they_promise():
    rng = np.random.default_rng(5)
    for scale in (0.3, 1.0, 2.0):
        came = rng.normal(0, 1, 6000)
        quantiles = np.tile(
            scale * np.array([-1.64, -1.28, -0.84, -0.52, -0.25, 0, 0.25, 0.52, 0.84, 1.28, 1.64]), (6000, 1)
        )
        moved = with_margins(quantiles, came, 15)[500:]
        inside = ((came[500:] >= moved[:, 0]) & (came[500:] <= moved[:, -1])).mean()
        assert 0.88 <= inside <= 0.92
        assert (np.diff(moved, axis=1) >= 0).all()


def test_the_crps_of_a_normal_prediction_is_the_published_one():
    from scipy.stats import norm

    quantiles = np.tile(norm.ppf(LEVELS), (20_000, 1))
    came = np.random.default_rng(1).normal(size=20_000)
    assert crps(quantiles, came) == pytest.approx(1 / np.sqrt(np.pi), rel=0.03)  # Gneiting and Raftery 2007


def test_arima_predicts_an_autoregression():
    rng = np.random.default_rng(2)
    steps = np.zeros(4000)
    for i in range(1, 4000):
        steps[i] = 0.7 * steps[i - 1] + rng.normal()
    series = steps.cumsum()
    lags = np.lib.stride_tricks.sliding_window_view(series, 15)[:-1, ::-1]
    model = Arima(p=1, q=0).fit(lags, series[15:])
    assert model.ar_[0] == pytest.approx(0.7, abs=0.05)
    assert np.sqrt(np.mean((model.predict(lags) - series[15:]) ** 2)) == pytest.approx(1.0, abs=0.1)


def write(path, signal, name="rtt_ms", time="unix_s"):
    session = signal.sessions[0]
    lines = [f"{t:.3f},{value:.3f}" for t, value in zip(session.t_s, session.values, strict=True)]
    path.write_text("\n".join([f"{time},{name}", *lines]) + "\n", encoding="utf-8")
    return path


def test_the_command_prints_scores(tmp_path):
    file = write(tmp_path / "pings.csv", slots(1800))
    result = bentpipe("predict", "score", file, "--horizon", "1s,next5s", "--models", "ols-phase", "--json")
    rows = json.loads(result.stdout)["rows"]
    assert [(row["horizon"], row["model"]) for row in rows] == [
        (horizon, model) for horizon in ("1s", "next5s") for model in ("hold", "ols-phase")
    ]
    keys = {"data", "target", "horizon", "model", "mape", "rmse", "within_5", "within_10", "crps", "coverage_90", "n"}
    assert all(set(row) == keys and row["data"] == "pings.csv" for row in rows)
    assert "ols-phase" in bentpipe("predict", "score", file, "--models", "ols-phase").stdout
    assert bp.score_predictors(file, horizons=["1s"], models=["hold"])["n"][0] == rows[0]["n"]


def test_all_files_behind_test_are_scored_and_none_is_trained(tmp_path):
    files = [write(tmp_path / f"{i}.csv", slots(900, seed=i)) for i in range(3)]
    result = bentpipe(
        "predict", "score", files[0], "--test", files[1], files[2], "--models", "ewma", "--horizon", "1s", "--json"
    )
    rows = json.loads(result.stdout)["rows"]
    assert [(row["data"], row["model"]) for row in rows] == [
        (name, model) for name in ("1.csv", "2.csv") for model in ("hold", "ewma")
    ]
    expected = bp.score_predictors(files[0], test=files[1:], models=["ewma"], horizons=["1s"])
    assert expected["mape"].to_list() == [row["mape"] for row in rows]
    missing = bentpipe("predict", "score", "--test", *files)
    assert missing.returncode == 2
    assert "Traceback" not in missing.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["short.csv"], "short.csv: too little data: "),
        (["flat.csv"], "flat.csv: every sample is 40; expected a signal that changes"),
        (["pings.csv", "--models", "hodl"], "--models: 'hodl'; did you mean 'hold'?"),
        (["pings.csv", "--horizon", "later"], "--horizon: 'later'; expected whole seconds"),
        (["pings.csv", "--target", "jitter"], "--target: 'jitter'; expected latency or throughput"),
        (["pings.csv", "--target", "throughput"], "pings.csv: has probes; expected one of samples, dish_samples"),
        (["pings.csv", "--test", "dish.parquet"], "expected files of one signal"),
        (["dish.parquet", "--column", "snr"], "has no column snr"),
        (["none.csv"], "none.csv"),
    ],
)
def test_data_that_cannot_be_scored_are_refused_in_one_line(tmp_path, arguments, message):
    write(tmp_path / "pings.csv", slots(900))
    write(tmp_path / "short.csv", slots(60))
    write(tmp_path / "flat.csv", Signal("", "", (Session(EPOCH_S + np.arange(900), np.full(900, 40.0)),)))
    session = slots(900).sessions[0]
    times = pl.Series((session.t_s * 1e6).astype("int64")).cast(pl.Datetime("us", "UTC"))
    pl.DataFrame({"time_utc": times, "pop_ping_latency_ms": session.values}).write_parquet(tmp_path / "dish.parquet")
    files = [tmp_path / each if "." in each else each for each in arguments]
    result = bentpipe("predict", "score", *files)
    assert result.returncode == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_a_clock_that_goes_back_is_warned_of_in_one_line(tmp_path):
    session = slots(900).sessions[0]
    back = np.where(np.arange(900) < 450, session.t_s, session.t_s - 100)
    lines = [f"{t_s:.1f},{value:.3f}" for t_s, value in zip(back, session.values, strict=True)]
    (tmp_path / "back.csv").write_text("\n".join(["unix_s,rtt_ms", *lines, ""]), encoding="utf-8")
    with pytest.warns(UserWarning, match="its clock goes back 1 time: each part counts"):
        assert len(read_signal(tmp_path / "back.csv", "latency").sessions) == 2
    done = bentpipe("predict", "score", tmp_path / "back.csv", "--models", "ewma", "--horizon", "1s")
    assert done.stderr.startswith("warning: ")
    assert "goes back 1 time" in " ".join(done.stderr.split())


def test_pings_of_zero_are_said_to_be_constant(tmp_path):
    flat = Signal("", "", (Session(EPOCH_S + np.arange(900), np.zeros(900)),))
    with pytest.raises(UserError, match="every sample is 0"):
        bp.score_predictors(write(tmp_path / "zero.csv", flat), models=["ewma"])


def test_a_terminals_latency_and_pings_are_two_signals(tmp_path):
    session = slots(900).sessions[0]
    times = pl.Series((session.t_s * 1e6).astype("int64")).cast(pl.Datetime("us", "UTC"))
    table = pl.DataFrame({"time_utc": times, "pop_ping_latency_ms": session.values, "downlink_throughput_bps": 2e6})
    table.write_parquet(tmp_path / "dish.parquet")
    assert read_signal(tmp_path / "dish.parquet", "latency").name == "pop_ping_latency_ms"
    throughput = read_signal(tmp_path / "dish.parquet", "throughput")
    assert (throughput.name, throughput.sessions[0].values[0]) == ("goodput_mbps", 2.0)
    assert read_signal(write(tmp_path / "a.csv", slots(900)), "latency").name == "ping_rtt_ms"
    assert (
        read_signal(write(tmp_path / "b.csv", slots(900), "popPingLatencyMs", "timestamp"), "latency").name
        == "pop_ping_latency_ms"
    )


@given(data=st.binary(max_size=300))
def test_damaged_files_give_one_line(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("data") / "x.parquet"
    for content in (data, b"PAR1" + data, b"unix_s,rtt_ms\n" + data):
        path.write_bytes(content)
        for target in ("latency", "throughput"):
            with pytest.raises(UserError) as error:
                read_signal(path, target)
            assert "\n" not in str(error.value)


def test_files_without_the_time_of_the_day_have_no_slots():
    """The phase of one file's clock says nothing about seconds that count from an unknown moment."""
    rng = np.random.default_rng(1)
    levels = rng.uniform(20, 60, 400)

    def slotted(name, start_s, *, clock_known):
        t_s = start_s + np.arange(4000.0)
        values = levels[(np.arange(4000) // 15)] * np.exp(rng.normal(0, 0.02, 4000))
        return Signal("ping_rtt_ms", name, (Session(t_s, values),), clock_known)

    known = slotted("known", EPOCH_S, clock_known=True)
    relative = slotted("relative", 7.0, clock_known=False)
    horizon = Horizon(5.0)
    assert fit([known], ["hold"], horizon)[0].spec.slot is not None
    assert fit([known, relative], ["hold"], horizon)[0].spec.slot is None
    assert fit([known], ["hold"], horizon, has_slots=False)[0].spec.slot is None
    by_slot = {each.model: each.mape for each in score([known], [horizon], ["slot-mean"], [relative])}
    assert by_slot["slot-mean"] > 0
    fitted = fit([known], ["ols-phase"], horizon)[0]
    stored = StoredModel(record_of(fitted), native_model(to_arrays(fitted.estimator)), "M")
    stored.check(known)
    with pytest.raises(UserError, match="uses the slot clock, and relative has no time of the day"):
        stored.check(relative)
