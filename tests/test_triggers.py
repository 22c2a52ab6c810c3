"""Triggers: what an expression may be, what its functions see, and when it fires."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.errors import UserError

pytest.importorskip("cel")

from bentpipe.triggers.expression import compile_expression
from bentpipe.triggers.language import FUNCTIONS
from bentpipe.triggers.trigger import Trigger, fire


def samples(values, name="a", step_s=1.0):
    return [(i * step_s, {name: float(value)}) for i, value in enumerate(values)]


def firings(expression, values, **options):
    return [firing.t_s for firing in fire(Trigger(expression, **options), samples(values))]


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "uses no signal"),
        ("a >", "'a >': "),
        ("a + 1", "is a number; expected a condition"),
        ("1 < 2", "uses no signal"),
        ("a.b > 1", "column 2: '.' is not allowed"),
        ("[1].all(x, x > 0)", "column 1: '[' is not allowed"),
        ("foo(a, 1) > 1", "column 1: unknown function 'foo'"),
        ("maen(a, 1) > 1", "did you mean 'mean'"),
        ("mean(a + 1, 3) > 1", "column 8: mean with '+'; expected mean(x, 10)"),
        ("mean(a, 3", "column 10: mean with no end"),
        ("mean(a, 0) > 1", "0 windows; expected 1 to 36000"),
        ("mean(a, 1.5) > 1", "1.5 windows"),
        ("mean(a, '5x') > 1", "'5x' is no time"),
        ("mean(a, '99h') > 1", "windows; expected 1 to 36000"),
        ("quantile(a, 2, 3) > 1", "quantile of 2"),
        ("a > 'x'", "'x' stands alone"),
        ("b > 1", "column 1: unknown signal 'b'"),
        ("latncy > 1", "did you mean 'latency'"),
        ("a > 1e999", "is too large"),
        ("a > 1 || " * 200 + "a > 1", "characters; expected at most 1000"),
        ("(" * 50 + "a > 1" + ")" * 50, "parentheses are too deep"),
        ("__import__('os') > 1", "unknown function '__import__'"),
        ("a > 1\n; a", "';' is not allowed"),
    ],
)
def test_what_is_no_condition_is_refused_in_one_line(expression, message):
    with pytest.raises(UserError) as error:
        Trigger(expression, ["a", "latency"])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["a", "(", ")", ",", "mean", "1", ">", "&&", "!", "'5s'", "?", ":"])).map(" ".join)
)
def test_no_text_makes_anything_but_an_error_of_one_line(text):
    try:
        expression = compile_expression(text, ["a"])
    except UserError as error:
        message = str(error)
        assert "\n" not in message
    else:
        assert expression.signals == {"a"}


@pytest.mark.parametrize("number", ["2", "2.0", "0.2e1"])
def test_whole_numbers_are_numbers_like_others(number):
    assert firings(f"a > {number} * mean(a, 3)", [1, 1, 1, 3, 1]) == [4.0]


def test_a_function_does_not_see_the_newest_window():
    values = [1.0, 2.0, 4.0, 8.0, 16.0]
    expected = {
        "mean(a, 3)": 14 / 3,
        "median(a, 3)": 4,
        "min(a, 3)": 2,
        "max(a, 3)": 8,
        "quantile(a, 0.5, 3)": 4,
        "stdev(a, 3)": np.std([2, 4, 8]),
        "delta(a, 3)": 16 - 2,
        "count(a, 3)": 3,
        "ewma(a, 3)": 0.5 * 8 + 0.5 * (0.5 * 4 + 0.5 * 2),
    }
    assert {name.partition("(")[0] for name in expected} == set(FUNCTIONS)
    for call, value in expected.items():
        for low, high in ((value - 1e-6, value + 1e-6),):
            trigger = Trigger(f"{call} > {low} && {call} < {high} && a > 15")
            assert [firing.t_s for firing in fire(trigger, samples(values))] == [5.0], call


def test_a_time_is_a_number_of_windows():
    assert firings("a > 2 * mean(a, '2s')", [1, 1, 9]) == [3.0]
    trigger = Trigger("a > 2 * mean(a, '1s')", window_s=0.5)
    assert [each.t_s for each in fire(trigger, samples([1, 1, 9], step_s=0.5))] == [1.5]


def test_a_window_has_the_mean_of_its_samples():
    trigger = Trigger("a > 5")
    made = list(fire(trigger, [(0.1, {"a": 0.0}), (0.5, {"a": 12.0}), (1.2, {"a": 1.0})]))
    assert [(each.t_s, each.values) for each in made] == [(1.0, {"a": 6.0})]


def test_it_fires_when_it_begins_to_hold_and_not_while():
    assert firings("a > 5", [0, 9, 9, 9, 0, 9, 0]) == [2.0, 6.0]
    assert firings("a > 5", [0, 9, 9, 9, 0, 9, 0], for_windows=2) == [3.0]
    assert firings("a > 5", [9, 0, 9, 0, 9, 0, 9, 0], cooldown_s=3.0) == [1.0, 5.0]


def test_what_is_missing_does_not_hold_and_is_counted():
    trigger = Trigger("a > 2 * mean(a, 3)")
    assert not list(fire(trigger, [(0.0, {"a": 1.0}), (1.0, {"a": 9.0})]))
    assert (trigger.evaluations, trigger.missing) == (2, 2)
    gap = Trigger("a > 5")
    assert not list(fire(gap, [(0.0, {}), (1.0, {"a": math.nan}), (2.0, {"b": 9.0}), (3.0, {"a": 0.0})]))
    assert gap.missing == 3
    either = Trigger("a > 5 || b > 5")
    assert [each.t_s for each in fire(either, [(0.0, {"a": 9.0}), (1.0, {"a": 0.0})])] == [1.0]


def test_a_gap_ends_what_held():
    trigger = Trigger("a > 5", for_windows=3)
    assert not list(fire(trigger, [(0.0, {"a": 9.0}), (1.0, {"a": 9.0}), (60.0, {"a": 9.0}), (61.0, {"a": 9.0})]))
    assert trigger.missing > 0


@given(
    st.lists(
        st.tuples(st.floats(-1e9, 1e9) | st.just(math.inf), st.floats() | st.none() | st.text(max_size=2)), max_size=40
    )
)
def test_hostile_samples_do_no_harm(values):
    trigger = Trigger("a > 2 * mean(a, 3) || stdev(a, 5) > 1 || delta(a, 2) / a > 1")
    last = -math.inf
    for t_s, value in values:
        firing = trigger.push(t_s, {"a": value, "c": 1.0})
        if firing is not None:
            assert firing.t_s >= last
            last = firing.t_s
    assert trigger.firings <= trigger.evaluations


@pytest.mark.parametrize(
    "options", [{"window_s": 0.0}, {"window_s": math.nan}, {"for_windows": 0}, {"cooldown_s": -1.0}]
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(UserError, match="expected"):
        Trigger("a > 1", **options)


def test_a_clock_that_is_set_back_begins_anew():
    trigger = Trigger("a > 5")
    trigger.push(1e9, {"a": 0.0})
    assert [each.t_s for each in fire(trigger, samples([0, 9, 0]))] == [2.0]


def test_a_window_counts_also_if_the_next_ones_have_no_sample():
    """A poll that is late by a little must not hide the window before."""
    trigger = Trigger("a > 50")
    late = [(0.9, {"a": 10.0}), (1.9, {"a": 100.0}), (3.1, {"a": 10.0}), (4.0, {"a": 10.0})]
    assert [(firing.t_s, firing.values) for firing in fire(trigger, late)] == [(2.0, {"a": 100.0})]
    assert trigger.missing == 1
    short = Trigger("a > 50", window_s=0.1)
    assert [round(firing.t_s, 6) for firing in fire(short, samples([10, 100, 10, 100], "a"))] == [1.1, 3.1]


@pytest.mark.parametrize("size", ["1e999", "'" + "9" * 400 + "h'"])
def test_windows_without_end_are_refused(size):
    with pytest.raises(UserError, match="windows"):
        Trigger(f"mean(a, {size}) > 1")


def test_an_expression_says_how_many_windows_it_looks_at():
    expression = compile_expression("mean(a, 10) > 1 && max(b, '5s') > 1 || a > 3")
    assert (expression.longest, expression.windows) == (10, 15)


def test_a_clock_that_is_set_back_ends_the_time_without_firings():
    trigger = Trigger("a > 50", cooldown_s=3600.0)
    assert [trigger.push(t, {"a": 100.0}) for t in (1e6, 1e6 + 1)][1] is not None
    assert [trigger.push(t, {"a": a}) for t, a in ((10.0, 1.0), (11.0, 100.0), (12.0, 1.0))][2] is not None
