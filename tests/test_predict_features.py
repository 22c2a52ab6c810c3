"""Features of a signal: a table and a stream agree, and no feature sees the future."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.errors import UserError
from bentpipe.predict.features import FeatureSpec, FeatureStream, SlotClock, features_table

SPECS = [
    FeatureSpec(),
    FeatureSpec(lags=3, windows_s=(5.0, 60.0), ewma=(0.5,), relative=True, floor=0.5, reference_s=5.0),
    FeatureSpec(slot=SlotClock(period_s=15.0, phase_s=12.0), earlier_slots=4, time_of_day=True, covariates=("km",)),
]
SAMPLES = st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1e4) | st.just(np.nan)), min_size=1, max_size=80)


@pytest.mark.parametrize("spec", SPECS, ids=["lags", "relative", "slots"])
@given(samples=SAMPLES, start=st.integers(0, 2**31))
def test_a_stream_returns_the_rows_of_the_table(spec, samples, start):
    steps, values = zip(*samples, strict=True)
    t_s = start + np.cumsum(steps).astype(float)
    others = np.tile([float(start)], (len(t_s), len(spec.covariates)))
    rows, is_ready, reference = features_table(spec, t_s, values, others)
    stream = FeatureStream(spec)
    for number, (at_s, value) in enumerate(zip(t_s, values, strict=True)):
        np.testing.assert_array_equal(stream.push(at_s, value, others[number]), rows[number])
        assert stream.is_ready == is_ready[number]
        np.testing.assert_equal(stream.reference, reference[number])
    assert rows.shape == (len(t_s), len(spec.names))


@pytest.mark.parametrize("spec", SPECS, ids=["lags", "relative", "slots"])
def test_rows_do_not_change_with_the_future(spec):
    rng = np.random.default_rng(1)
    t_s, values = np.arange(300.0), rng.uniform(20, 80, 300)
    others = rng.uniform(size=(300, len(spec.covariates)))
    rows, _, _ = features_table(spec, t_s, values, others)
    for cut in (1, 40, 170):
        changed = np.concatenate([values[:cut], rng.uniform(20, 80, 300 - cut)])
        np.testing.assert_array_equal(features_table(spec, t_s, changed, others)[0][:cut], rows[:cut])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step_s": 0.0}, "step_s: 0; expected 0.001 to 86400 s"),
        ({"windows_s": (0.1,)}, "windows_s: 0.1; expected one to 1048576 steps"),
        ({"ewma": (2.0,)}, "ewma: 2; expected a weight above 0, at most 1"),
        ({"slot": SlotClock(period_s=0.0, phase_s=0.0)}, "period_s: 0; expected a step of the signal to 86400 s"),
    ],
)
def test_specifications_out_of_range_are_refused(change, message):
    spec = FeatureSpec(**change)
    for make in (lambda: spec.names, lambda: FeatureStream(spec), lambda: features_table(spec, [0.0], [1.0])):
        with pytest.raises(UserError, match=message):
            make()


def test_samples_that_cannot_be_used_are_refused():
    stream = FeatureStream(FeatureSpec(relative=True))
    stream.push(5.0, 30.0)
    for (t_s, value), message in {
        (5.0, 30.0): "a sample of 5 s follows one of 5 s",
        (np.nan, 30.0): "expected a finite number within",
        (6.0, -1.0): "value is -1; expected a finite number of 0 or more",
        (6.0, np.inf): "value is inf",
    }.items():
        with pytest.raises(UserError, match=message):
            stream.push(t_s, value)
    with pytest.raises(UserError, match="0 covariates"):
        FeatureStream(FeatureSpec(covariates=("a",))).push(0.0, 1.0)
    with pytest.raises(UserError, match="expected one time per value"):
        features_table(FeatureSpec(), [0.0, 1.0], [1.0])
    with pytest.raises(UserError, match=r"expected \(1, 1\)"):
        features_table(FeatureSpec(covariates=("a",)), [0.0], [1.0], [[1.0, 2.0]])
