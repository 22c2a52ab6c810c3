"""The study of predictors: simulated and measured signals, and the weights of pings in a terminal's own latency."""

import numpy as np
import pytest
from shared_data import require_data

from bentpipe.errors import UserError
from bentpipe.predict.signals import PINGS, Session, Signal
from bentpipe.predict.smoothing import lag_weights, running_mean
from bentpipe.studies.running import run_study

pytest.importorskip("xgboost")


def pings(n=600, seed=1):
    values = 40 + 10 * np.abs(np.random.default_rng(seed).standard_normal(n))
    return Signal(PINGS, "pings", (Session(1.7e9 + np.arange(float(n)), values),))


def test_a_running_mean_has_equal_weights_and_none_before():
    weights = lag_weights(running_mean(pings(), 15), pings())
    np.testing.assert_allclose(weights.weights[:15], 1 / 15, atol=1e-6)
    np.testing.assert_allclose(weights.weights[15:], 0, atol=1e-6)
    assert weights.explained == pytest.approx(1)
    assert weights.n == 600 - 24


def test_a_missing_ping_is_in_no_row():
    signal = pings()
    signal.sessions[0].values[300] = np.nan
    assert lag_weights(running_mean(signal, 5), signal).n == 600 - 24 - 25


def test_signals_of_other_times_are_refused():
    later = Signal(PINGS, "later", (Session(1.8e9 + np.arange(600.0), pings().sessions[0].values),))
    with pytest.raises(UserError, match="later, pings: 0 common samples; expected 100 samples or more of both"):
        lag_weights(later, pings())


def test_simulated_pings_are_scored_beside_hold(tmp_path):
    result = run_study("t3p-predictors", tmp_path, quick=True).result
    assert len(result.verdicts) == 4
    rows = {row.quantity: row for row in result.rows}
    assert rows["latency, XGBoost, MAPE: EDH"].basis.endswith(": EDH")
    assert all(row.ours is not None and row.basis.startswith("simulated") for row in result.rows)


def test_measured_signals_explain_the_published_table(tmp_path):
    result = run_study("t3p-predictors", tmp_path, data=require_data()).result
    verdicts = [verdict.holds for verdict in result.verdicts]
    assert verdicts == [True, True, False, False]
    ours = {row.quantity.rpartition("seconds: ")[2]: row.ours for row in result.rows if row.published is None}
    assert ours["weight of the last 16 s"] > 0.85
    assert abs(ours["weight of the 9 s before"]) < 0.1
    assert ours["greatest of these weights"] < 0.1


def test_one_file_of_pings_is_enough(tmp_path):
    file = tmp_path / "ping.csv"
    (session,) = pings().sessions
    lines = [f"{t},{v}" for t, v in zip(session.t_s, session.values, strict=True)]
    file.write_text("\n".join(["unix_s,rtt_ms", *lines]))
    result = run_study("t3p-predictors", tmp_path / "out", data=file).result
    assert all("ping.csv" in row.basis for row in result.rows)
    # Independent samples: nothing to learn beyond their spread, so holding is far worse than a median.
    assert result.verdicts[1].holds is True
