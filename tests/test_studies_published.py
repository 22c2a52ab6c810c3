"""Studies of flows: their files, what is kept of a Run, and one small run of each that takes little."""

import numpy as np
import pytest

from bentpipe.profiles import preset_profile
from bentpipe.runs import Experiment, Flow, ProfileRef
from bentpipe.runs.experiment import NS_PER_S, ROLE
from bentpipe.studies import STUDIES, find_study
from bentpipe.studies.agreement import over_seeds, shown
from bentpipe.studies.apnic_2022 import _equal_after_s
from bentpipe.studies.flows import Field, Track, quantile
from bentpipe.studies.scenario import load_scenario
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
    scenario = load_scenario(name)
    assert all(published.source for published in scenario.published.values())


def test_a_track_is_cut_and_binned():
    whole = track([1, 3, 5, 7, 9], step_s=0.5)
    assert list(whole.between(0.5, 2.0).t_s) == [1.0, 1.5, 2.0]
    t_s, goodput_bps = whole.binned(1.0)
    assert (list(t_s), list(goodput_bps)) == ([1.0, 2.0], [2.0, 6.0])
    assert whole.between(9, 10).mean_bps == 0.0


def test_streams_are_equal_once_two_seconds_of_both_are():
    first, second = track([10.0] * 30), track([2.0] * 8 + [9.0] * 12, start_s=10.0)
    # Two seconds of 9 over 10; with one of 2 among them it is 5.5.
    assert _equal_after_s([first, second], 30.0) == 8.0
    assert _equal_after_s([first, track([2.0] * 20, start_s=10.0)], 30.0) is None


def test_a_verdict_says_how_many_seeds_agree():
    verdict = over_seeds("s", [True, True, False], "figure 1", "simulated", "7 and 3")
    assert (verdict.holds, verdict.why) == (True, "2 of 3 seeds agree: 7 and 3")
    assert over_seeds("s", [True, False], "", "", "").holds is False
    assert over_seeds("s", [], "", "", "").holds is None
    assert quantile([np.array([1.0, np.nan]), np.array([3.0])], 0.5) == 2.0
    assert quantile([], 0.5) is None
    assert shown([1.0, None], "ms") == "1, – ms"
    assert shown([float(i) for i in range(21)], "") == "median 10 (0 to 20)"


def test_runs_of_a_study_come_back_by_key_with_what_iperf3_prints(tmp_path):
    path = preset_profile("dumbbell:rate=10mbit", 6.0, name="bell")
    field = Field()
    for seed in (0, 1):
        experiment = Experiment(
            name="small",
            seed=seed,
            duration_ns=6 * NS_PER_S,
            profiles=(ProfileRef(ROLE, path.name, path.content_hash()),),
            flows=(Flow("cubic"), Flow("cubic", start_ns=2 * NS_PER_S)),
            sample_step_ns=NS_PER_S,
        )
        field.add(("bell", "cubic"), experiment, path)
    runs = field.run(Request(tmp_path))
    assert list(runs) == [("bell", "cubic")]
    first, second = runs["bell", "cubic"][1].tracks
    assert list(first.t_s) == [1, 2, 3, 4, 5, 6]
    assert list(second.t_s) == [3, 4, 5, 6]
    assert 7e6 < first.between(1, 2).mean_bps < 10e6
    assert (first.rtt_ms > 40).all()
    assert (first.rtt_var_ms >= 0).all()
    assert (first.cwnd_bytes > 0).all()
    assert (
        field.run(Request(tmp_path))["bell", "cubic"][1].run.record["content_hash"]
        == (runs["bell", "cubic"][1].run.record["content_hash"])
    )
