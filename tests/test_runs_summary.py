"""What seeds come to: every one counts, unless a seed changes nothing at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.execution.racing import race
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.run_record import RunRecord
from bentpipe.runs.store import Run
from bentpipe.runs.summary import compare, compare_difference, counted, paired_values, summarise, total_goodput_bps

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z
BPS = st.sampled_from([0.0, 1e6, 5e6])


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    out = tmp_path_factory.mktemp("raced")
    path = preset_profile("dumbbell:rate=10mbit", 2.0, start_unix_ns=START_UNIX_NS, name="dumbbell")
    return {run.scheme: run for run in race([path], ["reno", "cubic"], out=out, duration_s=2.0).runs}


def runs_with(raced, scheme, goodputs):
    """Runs of seeds 0, 1, … as they might have come out; None is one that is not valid."""
    made = []
    for seed, bps in enumerate(goodputs):
        record = raced[scheme].record.to_dict()
        record["seed"] = seed
        record["valid"] = bps is not None
        record["summary"]["flows"][0]["goodput_bps"] = bps or 0.0
        made.append(Run(raced[scheme].path, RunRecord.check(record, "run.json")))
    return made


def test_equal_failures_of_several_seeds_count_separately(raced):
    (summary,) = summarise(runs_with(raced, "cubic", [0, 0, 0, 0, 100e6]))
    assert (summary.n, summary.valid, summary.total_bps.mean) == (5, 5, 20e6)


@given(st.lists(BPS, min_size=1, max_size=6), st.lists(BPS, min_size=1, max_size=6))
def test_means_and_paired_differences_are_of_the_same_seeds(raced, ours, theirs):
    both = min(len(ours), len(theirs))
    runs = runs_with(raced, "reno", ours) + runs_with(raced, "cubic", theirs)
    mine, others = summarise(runs)
    assert mine.total_bps.mean == pytest.approx(sum(ours) / len(ours))
    gap = compare_difference(runs, "reno", "cubic", total_goodput_bps)["dumbbell"]
    paired = [a - b for a, b in zip(ours, theirs, strict=False)]
    assert gap.mean == pytest.approx(sum(paired) / both, abs=1e-3)
    if len(ours) == len(theirs):
        assert gap.mean == pytest.approx(mine.total_bps.mean - others.total_bps.mean, abs=1e-3)
    assert gap.n == (1 if len(set(zip(ours, theirs, strict=False))) == 1 else both)


def test_only_equal_runs_are_one_result(raced):
    assert len(counted(runs_with(raced, "cubic", [4e6, 4e6, 4e6]))) == 1
    assert len(counted(runs_with(raced, "cubic", [4e6, 4e6, 5e6]))) == 3
    assert len(counted(runs_with(raced, "cubic", [4e6, None, 4e6, 5e6]))) == 3
    assert counted(runs_with(raced, "cubic", [None])) == []


def test_seeds_without_a_partner_are_not_paired(raced):
    runs = runs_with(raced, "reno", [1e6, None, 3e6, 4e6]) + runs_with(raced, "cubic", [2e6, 2e6, 6e6])
    assert paired_values(runs, "reno", "cubic", total_goodput_bps) == {"dumbbell": ([1e6, 3e6], [2e6, 6e6])}
    assert compare(runs, "reno", "cubic", total_goodput_bps)["dumbbell"].mean == pytest.approx(0.5)
    assert compare(runs[:2], "reno", "cubic", total_goodput_bps) == {}
