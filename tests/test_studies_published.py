"""Studies of flows: their files, the stored measures of a Run, and the verdicts."""

import numpy as np
import pytest

from bentpipe.experiments.experiment import NS_PER_S, ROLE, Experiment, Flow, ProfileRef
from bentpipe.profiles.presets import preset_profile
from bentpipe.studies import STUDIES, find_study
from bentpipe.studies.agreement import Claim, above_zero, all_hold, on_one_path, sign_tested, values_text
from bentpipe.studies.apnic_2022 import _equal_after_s
from bentpipe.studies.files import FILES
from bentpipe.studies.flows import DAY_NS, RunBatch, Track, on_day, quantile
from bentpipe.studies.study import Request

OURS = ["apnic-2022", "huston-2024", "bbr3-starlink", "t3p-cc"]


def track(goodput_bps, start_s=0.0, step_s=1.0):
    """A flow of which only the goodput is of interest."""
    goodput_bps = np.asarray(goodput_bps, np.float64)
    t_s = start_s + step_s * np.arange(1, len(goodput_bps) + 1)
    rest = np.zeros(len(t_s))
    return Track(t_s, goodput_bps, rest, rest, rest, rest)


@pytest.mark.parametrize("name", OURS)
def test_every_study_is_listed_and_its_published_figures_have_sources(name):
    assert find_study(name).name == name
    assert name in STUDIES
    assert all(published.source for published in FILES[name].load().published.values())


def test_a_track_is_cut_and_binned():
    whole = track([1, 3, 5, 7, 9], step_s=0.5)
    assert list(whole.between(0.5, 2.0).t_s) == [1.0, 1.5, 2.0]
    t_s, goodput_bps = whole.binned(1.0)
    assert (list(t_s), list(goodput_bps)) == ([1.0, 2.0], [2.0, 6.0])
    assert whole.between(9, 10).mean_bps == 0.0


def test_streams_are_equal_after_two_equal_seconds_of_both():
    first, second = track([10.0] * 50), track([2.0] * 8 + [9.0] * 32, start_s=10.0)
    # Two seconds of 9 over 10; with one of 2 among them it is 5.5.
    assert _equal_after_s([first, second], 50.0) == 8.0
    assert _equal_after_s([first, second], 30.0) is None  # twelve seconds are not to stay
    assert _equal_after_s([first, second], 30.0, unequal_after=1.0) == 8.0
    assert _equal_after_s([first, track([2.0] * 20, start_s=10.0)], 30.0) is None
    # Once equal is not yet settled: they part again, and then stay.
    parted = track([9.0] * 4 + [2.0] * 8 + [9.0] * 28, start_s=10.0)
    assert _equal_after_s([track([10.0] * 50), parted], 50.0) == 12.0
    # A moment in a long time is let pass.
    moment = track([9.0] * 60 + [2.0] + [9.0] * 39, start_s=10.0)
    assert _equal_after_s([track([10.0] * 110), moment], 110.0) == 0.0


def test_a_sign_test_rejects_chance():
    two_of_three = sign_tested([True, True, False])
    assert (two_of_three.holds, two_of_three.why) == (None, "2 of 3 tests agree (sign test: p = 0.5)")
    assert sign_tested([True] * 5).holds is True  # 1/32
    assert sign_tested([True] * 4).holds is None  # 1/16
    assert sign_tested([False] * 5).holds is False
    assert sign_tested([True] * 13 + [False] * 12).holds is None
    assert sign_tested([]).holds is None


def test_a_claim_is_decided_by_the_interval_of_its_paired_ratio():
    def holds(ours, theirs, *limits):
        return all_hold("s", [Claim("a over b", ours, theirs, *limits)], "", "").holds

    theirs = [1.0, 2.0, 3.0, 4.0]
    assert holds([1.2, 2.5, 3.5, 4.7], theirs) is True
    assert holds([0.8, 1.7, 2.6, 3.3], theirs) is False
    assert holds([0.7, 2.5, 2.6, 4.7], theirs) is None
    assert holds([1.2], [1.0]) is None  # one test decides nothing
    assert holds([0.41, 0.83, 1.2, 1.61], theirs, 0.0, 0.5) is True
    assert holds([1.01, 2.0, 2.97, 4.03], theirs, 0.9, 1.1) is True
    assert holds([0.0] * 5, [1.0] * 5) is False  # no ratio: the sign test
    assert holds([9.0] * 5, [0.0] * 5) is True
    both = [Claim("a", [2.0, 2.1], [1.0, 1.0]), Claim("b", [0.5, 0.51], [1.0, 1.0])]
    assert all_hold("s", both, "", "").holds is False
    reasons = all_hold("s", [Claim("a over b", [1.2, 2.5, 3.5], theirs[:3])], "", "", "figures").why
    assert reasons.startswith("a over b × 1.21 (95 %: 1.11 to")
    assert reasons.endswith("n = 3); figures")
    assert above_zero("s", [1.0, 1.2, 0.9], "", "", "").holds is True
    assert above_zero("s", [1.0, -1.0, 0.2], "", "", "").holds is None
    assert above_zero("s", [1.0], "", "", "").holds is None


def test_repeated_runs_of_a_static_path_count_as_one_path():
    verdict = on_one_path("s", [True] * 5, "", "", "f")
    assert verdict.holds is True
    assert "n = 1" in verdict.why
    assert on_one_path("s", [True] * 4 + [False], "", "", "").holds is None
    assert on_one_path("s", [False] * 2, "", "", "").holds is False


def test_tests_over_satellites_are_on_different_days():
    one, other = (on_day("leo-2024", 5.0, day) for day in (0, 3))
    assert other.start_unix_ns - one.start_unix_ns == 3 * DAY_NS
    assert one.content_hash() != other.content_hash()
    assert on_day("geo", 5.0, 3).content_hash() == on_day("geo", 5.0, 0).content_hash()


def test_values_are_shown_in_order_or_by_their_range():
    assert quantile([np.array([1.0, np.nan]), np.array([3.0])], 0.5) == 2.0
    assert quantile([], 0.5) is None
    assert values_text([1.0, None], "ms") == "1, – ms"
    assert values_text([float(i) for i in range(21)], "") == "median 10 (0 to 20)"


def test_runs_of_a_study_are_returned_by_key_with_iperf3_columns(tmp_path):
    path = preset_profile("dumbbell:rate=10mbit", 6.0, name="dumbbell")
    field = RunBatch()
    for seed in (0, 1):
        experiment = Experiment(
            name="small",
            seed=seed,
            duration_ns=6 * NS_PER_S,
            warmup_ns=0,
            profiles=(ProfileRef(role=ROLE, name=path.name, hash=path.content_hash()),),
            flows=(Flow(controller="cubic"), Flow(controller="cubic", start_ns=2 * NS_PER_S)),
            sample_step_ns=NS_PER_S,
        )
        field.add(("dumbbell", "cubic"), experiment, path)
    runs = field.run(Request(tmp_path))
    assert list(runs) == [("dumbbell", "cubic")]
    first, second = runs["dumbbell", "cubic"][1].tracks
    assert list(first.t_s) == [1, 2, 3, 4, 5, 6]
    assert list(second.t_s) == [3, 4, 5, 6]
    assert 7e6 < first.between(1, 2).mean_bps < 10e6
    assert (first.rtt_ms > 40).all()
    assert (first.rtt_var_ms >= 0).all()
    assert (first.cwnd_bytes > 0).all()
    assert field.run(Request(tmp_path))["dumbbell", "cubic"][1].run.record.content_hash == (
        runs["dumbbell", "cubic"][1].run.record.content_hash
    )
