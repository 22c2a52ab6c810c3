"""Tuning over a grid, and fairness on a shared path."""

import numpy as np
import pytest

from bentpipe import preset_profile
from bentpipe.errors import UserError
from bentpipe.fairness import Group, entrant_of_groups, fairness, parse_groups
from bentpipe.plots.fairness import plot_fairness
from bentpipe.plots.heatmap import plot_heatmaps
from bentpipe.tuning import parse_grid, search, tune


@pytest.fixture(scope="module")
def lossy():
    return preset_profile("dumbbell:rate=5mbit,rtt=40ms,queue=1bdp,loss=0.03", duration_s=14)


def test_a_higher_loss_threshold_gains_on_a_lossy_path_and_the_winner_is_scored_again(lossy, tmp_path):
    grid = parse_grid("bbr2", ["loss_thresh=0.02,0.2", "probe_rtt_win_ms=5000"])
    found = tune([lossy], grid, out=tmp_path, duration_s=12, seeds=2, most_inflation=5.0)
    same, better = found.cells
    assert same.score.gain.mean == pytest.approx(1.0)  # the default's own values
    assert better.score.gain.mean > 1.1
    assert found.best == better
    assert found.fresh is not None
    assert found.fresh.gain != better.score.gain
    assert tune([lossy], grid, out=tmp_path, duration_s=12, seeds=2, most_inflation=0.0).best is None
    assert plot_heatmaps(found, "t").axes
    assert found.to_dict()["best"]["point"] == {"loss_thresh": "0.2", "probe_rtt_win_ms": "5000"}


@pytest.mark.parametrize(
    ("cc", "axes", "said"),
    [
        ("bbr2", ["los_thresh=0.02"], r"did you mean `loss_thresh`"),
        ("bbr2", ["probe_rtt_win_ms=-1"], r"is -1; it must be from .* ms"),
        ("bbr2", ["loss_thresh"], r"--grid: 'loss_thresh'; wanted tunable=value"),
        ("bbr2", ["loss_thresh=0.1", "loss_thresh=0.2"], "stands twice"),
        ("bbr2", [], "--grid: none given"),
        ("bbr2+cubic", ["loss_thresh=0.1"], "a grid is of one controller"),
        ("bbr22", ["loss_thresh=0.1"], "did you mean"),
    ],
)
def test_a_grid_that_is_none_is_refused(cc, axes, said):
    with pytest.raises(UserError, match=said):
        parse_grid(cc, axes)


def test_a_grid_of_a_million_points_says_what_it_costs(lossy, tmp_path):
    values = ",".join(f"{100 + i}" for i in range(1000))
    losses = ",".join(f"{0.001 * (i + 1) / 2:.5f}" for i in range(1000))
    grid = parse_grid("bbr2", [f"probe_rtt_win_ms={values}", f"loss_thresh={losses}"])
    assert grid.size == 1_000_000
    with pytest.raises(UserError, match=r"1,000,000 points on 2 paths are 2,000,000 Runs, about .* --yes runs them"):
        tune([lossy], grid, out=tmp_path, duration_s=2, seeds=2)
    assert search._span(3 * 86400) == "3.0 days"


def test_groups_are_read_with_their_tunables():
    found = parse_groups("8xcubic,2xbbr2:loss_thresh=0.08,probe_rtt_win_ms=4000,reno")
    assert [(each.count, each.entrant) for each in found] == [
        (8, "cubic"),
        (2, "bbr2:loss_thresh=0.08,probe_rtt_win_ms=4000"),
        (1, "reno"),
    ]
    assert entrant_of_groups(found[1:]).count("+") == 2
    for text, said in (
        ("0xcubic,reno", "0 flows"),
        ("cubic", "one flow"),
        ("2xcubix", "did you mean"),
        ("2x", "wanted"),
    ):
        with pytest.raises(UserError, match=said):
            parse_groups(text)


def test_equal_flows_share_evenly_and_more_so_over_longer_times(tmp_path):
    path = preset_profile("dumbbell:rate=10mbit,rtt=40ms,queue=1bdp", duration_s=60)
    found = fairness([path], [Group(2, "reno"), Group(2, "reno")], out=tmp_path)
    assert sum(each.mean for each in found.shares) == pytest.approx(1.0)
    assert found.scales[-1].jain.mean >= found.scales[0].jain.mean
    assert found.scales[0].jain.mean <= 1.0
    assert found.ratios[0].size == 50
    assert np.isfinite(np.median(found.ratios[0]))
    assert plot_fairness({"reno": found}, "t").axes
    assert found.to_dict()["groups"][0]["fair_share"] == 0.5
