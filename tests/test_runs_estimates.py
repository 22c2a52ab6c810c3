"""Means, intervals, ratios and fairness."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bentpipe.runs.estimates import estimate, jain_index, paired_ratio, t_quantile

positive = st.floats(1e-3, 1e12)


@pytest.mark.parametrize("degrees", [*range(1, 41), 100, 1000])
def test_t_quantiles_agree_with_scipy(degrees):
    assert t_quantile(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), abs=1e-4)


def test_an_interval_holds_the_true_mean_95_times_in_100():
    # Binomial(4000, 0.95) has a standard deviation of 0.34 %: 1.4 % is four of them.
    rng = np.random.default_rng(1)
    results = [estimate(list(sample), floor=-math.inf) for sample in rng.normal(7.0, 2.0, size=(4000, 4))]
    hit = np.mean([e.low <= 7.0 <= e.high for e in results])
    assert abs(hit - 0.95) < 0.014


def test_one_run_has_no_interval():
    estimated = estimate([3.0])
    assert (estimated.n, estimated.mean, estimated.median, estimated.low, estimated.high) == (1, 3.0, 3.0, None, None)


def test_an_interval_is_truncated_at_the_smallest_possible_value():
    assert estimate([0.0, 10.0]).low == 0.0
    assert estimate([0.9, 0.6], ceiling=1.0).high == 1.0
    assert estimate([0.0, 10.0], floor=-math.inf).low < 0.0


@given(st.lists(positive, min_size=2, max_size=6), st.floats(0.01, 100.0))
def test_a_constant_factor_is_recovered_exactly_on_any_path(values, factor):
    ratio = paired_ratio([v * factor for v in values], values)
    assert ratio.mean == pytest.approx(factor, rel=1e-9)
    if ratio.low is None:  # not even rounding tells the ratios apart
        return
    assert ratio.low == pytest.approx(factor, rel=1e-6)
    assert ratio.high == pytest.approx(factor, rel=1e-6)


def test_a_ratio_to_zero_does_not_exist():
    assert paired_ratio([1.0, 2.0], [0.0, 1.0]) is None
    assert paired_ratio([], []) is None


@given(st.lists(positive, min_size=1, max_size=8))
def test_jain_lies_between_one_nth_and_one(shares):
    index = jain_index(shares)
    assert 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9


def test_jain_of_equal_flows_and_of_one_that_has_everything():
    assert jain_index([5.0, 5.0, 5.0, 5.0]) == pytest.approx(1.0)
    assert jain_index([7.0, 0.0, 0.0]) == pytest.approx(1 / 3)
    assert jain_index([0.0, 0.0]) is None
    assert math.isclose(jain_index([1.0, 3.0]), 16 / 20)


def test_equal_runs_have_no_interval():
    estimated = estimate([3.0, 3.0, 3.0])
    assert (estimated.n, estimated.mean, estimated.low, estimated.high) == (3, 3.0, None, None)
