"""The path as a Run met it: mean capacity, handovers, outages and loss episodes within the Run's window."""

import numpy as np
import pytest

from bentpipe.execution.racing import race
from bentpipe.plots.distributions import retransmit_share
from bentpipe.plots.series import goodput
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.parquet import read_profile
from bentpipe.profiles.path import PathView
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.path import RacedPath, raced_path

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    out = tmp_path_factory.mktemp("raced")
    path = make_profile("melbourne", "sydney", start_unix_ns=START_UNIX_NS, duration_s=40.0, seed=3)
    return race([path], ["bbr"], out=out, duration_s=20.0, seeds=2).runs


def test_capacity_is_the_mean_over_each_bin(raced):
    for run in raced:
        path = raced_path(run)
        edges, capacity = path.capacity_bps("down", 1.0)
        assert list(edges) == list(range(21))
        fine = path.view.capacity("down")
        at = run.offset_s + np.arange(0.0, 20.0, 1e-4) + 5e-5
        sampled = fine.value[np.searchsorted(fine.t_s, at, side="right") - 1].reshape(20, -1).mean(axis=1)
        assert capacity == pytest.approx(sampled, rel=0.01)


def test_no_flow_carries_more_than_the_path_could(raced):
    """In sum: data that waited for a repair are delivered late, and may lift a single second."""
    for run in raced:
        _, capacity = raced_path(run).capacity_bps("down", 1.0)
        _, carried = goodput(run.samples(), 0, 1.0)
        assert carried.sum() > 0
        assert (np.cumsum(carried) <= np.cumsum(capacity)).all()


def test_the_path_is_that_of_the_runs_seed(raced):
    first, second = (raced_path(run).view for run in raced)
    assert first.profile.content_hash() == raced[0].record.profiles[0].hash
    assert second.profile.content_hash() == raced[1].record.profiles[0].hash
    assert first.profile.content_hash() != second.profile.content_hash()


def test_handovers_and_reconfigurations_are_those_the_run_recorded(raced):
    for run in raced:
        events, path = run.events(), raced_path(run)
        for kind, result in (("handover", path.handovers()), ("reconfiguration", path.reconfigurations())):
            recorded = events.filter((events["flow"] < 0) & (events["kind"] == kind))["t_s"]
            assert result == pytest.approx(recorded.to_numpy(), abs=1e-6)


def test_outages_and_episodes_are_cut_to_the_run(raced):
    whole = raced_path(raced[0]).view
    every = RacedPath(whole, 0.0, whole.duration_s).loss_episodes("down")
    assert every
    for start, end in every:
        half = RacedPath(whole, (start + end) / 2, 1.0).loss_episodes("down")
        assert half[0][0] == 0
    with pytest.warns(UserWarning, match="an outage"):
        nowhere = make_profile("-30.0,-120.0", "sydney", start_unix_ns=START_UNIX_NS, duration_s=30.0, isl="never")
    path = RacedPath(PathView(nowhere), 5.0, 20.0)
    assert path.outages() == [(0.0, 20.0)]
    assert path.no_path_s() == 20.0
    assert path.loss_episodes("down") == []
    assert path.capacity_bps("down", 1.0)[1].max() == 0


def test_a_handover_whose_interruption_lasts_into_the_run_counts(raced):
    view = raced_path(raced[0]).view
    first = view.handovers()[0]
    at_s, cut_s = first["at_ns"] / 1e9, first["interruption_ns"] / 1e9
    assert RacedPath(view, at_s + 0.5 * cut_s, 5.0).handovers() == pytest.approx([0.0])
    assert list(RacedPath(view, at_s + 1.5 * cut_s, 5.0).handovers()) == []
    assert RacedPath(view, at_s - 1.0, 5.0).handovers() == pytest.approx([1.0])


def test_the_serving_satellite_is_known_for_the_whole_run(raced):
    for run in raced:
        path = raced_path(run)
        turns = path.serving()
        assert [turns[0][0], *(end for _, end, _ in turns)] == pytest.approx([*(start for start, _, _ in turns), 20.0])
        assert [start for start, _, _ in turns[1:]] == pytest.approx(list(path.handovers()))
        assert all(name.startswith("sat:") for _, _, name in turns)


def test_without_the_stored_profile_there_is_no_path(tmp_path):
    dumbbell = preset_profile("dumbbell:rate=10mbit", 3.0, start_unix_ns=START_UNIX_NS, name="dumbbell")
    (run,) = race([dumbbell], ["reno"], out=tmp_path, duration_s=2.0).runs
    file = tmp_path / "profiles" / "dumbbell.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert raced_path(run) is None
    file.write_bytes(whole)
    assert raced_path(run).capacity_bps("down", 1.0)[1] == pytest.approx([10e6, 10e6])
    assert read_profile(file).content_hash() == run.record.profiles[0].base_hash
    file.unlink()
    assert raced_path(run) is None


def test_the_share_retransmitted_counts_after_the_warm_up(raced):
    run = raced[0]
    samples = run.samples()
    late = samples.filter(samples["t_s"] > run.warmup_s)
    again = late["retransmits"].max() - samples.filter(samples["t_s"] <= run.warmup_s)["retransmits"].max()
    assert (retransmit_share(run) > 0) == (again > 0)
    assert 0 <= retransmit_share(run) < 50
