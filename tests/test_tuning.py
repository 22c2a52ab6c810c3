"""Tuning over a grid, and fairness on a shared path."""

from types import SimpleNamespace

import numpy as np
import pytest

from bentpipe.errors import UserError
from bentpipe.fairness import Group, fairness, parse_groups, scheme_of_groups
from bentpipe.plots.fairness import plot_fairness
from bentpipe.plots.heatmap import plot_heatmaps
from bentpipe.profiles.presets import preset_profile
from bentpipe.tuning import search
from bentpipe.tuning.grid import parse_grid
from bentpipe.tuning.scores import score
from bentpipe.tuning.search import tune


@pytest.fixture(scope="module")
def lossy():
    return preset_profile("dumbbell:rate=5mbit,rtt=40ms,queue=1bdp,loss=0.03", duration_s=14)


def test_a_higher_loss_threshold_gains_on_a_lossy_path_and_the_winner_is_scored_again(lossy, tmp_path):
    grid = parse_grid("bbr2", ["loss_thresh=0.02,0.2", "probe_rtt_win_ms=5000"])
    tuned = tune([lossy], grid, out=tmp_path, duration_s=12, seeds=2, most_inflation=5.0)
    same, better = tuned.cells
    assert same.score.gain.mean == pytest.approx(1.0)  # the default's own values
    assert better.score.gain.mean > 1.1
    assert tuned.best == better
    assert tuned.fresh is not None
    assert tuned.fresh.gain != better.score.gain
    assert "the gain may be chance" in tuned.fresh_on  # of a static path there is no other draw
    assert tune([lossy], grid, out=tmp_path, duration_s=12, seeds=2, most_inflation=0.0).best is None
    texts = [text.get_text() for text in plot_heatmaps(tuned, title="t").axes[0].texts]
    gain = better.score.gain
    low, high = (f"{100 * (end - 1):+.0f}" for end in (gain.low, gain.high))
    assert any(text.endswith(f"{low} … {high}") for text in texts)
    assert tuned.to_dict()["best"]["point"] == {"loss_thresh": "0.2", "probe_rtt_win_ms": "5000"}


def test_the_best_point_is_scored_again_on_held_out_profiles(lossy, tmp_path):
    kept = preset_profile("dumbbell:rate=5mbit,rtt=40ms,queue=1bdp,loss=0.01", duration_s=14)
    grid = parse_grid("bbr2", ["loss_thresh=0.2"])
    tuned = tune([lossy], grid, out=tmp_path, duration_s=12, most_inflation=5.0, fresh_paths=[kept])
    assert tuned.fresh_on.startswith("1 other Profile")
    assert tuned.to_dict()["fresh"]["on"] == tuned.fresh_on
    assert tuned.fresh.goodput_bps > tuned.best.score.goodput_bps  # a path that loses less
    with pytest.raises(UserError, match=r"fresh_paths: .* is among the Profiles"):
        tune([lossy], grid, out=tmp_path, duration_s=12, fresh_paths=[lossy])


def test_the_novelty_of_other_seeds_is_described():
    here = SimpleNamespace
    assert "with other random processes" in search._fresh_on([here(seed=1)], [], 3)
    mixed = search._fresh_on([here(seed=1), here(seed=None)], [], 3)
    assert mixed.startswith("1 of 2 Profiles with other random processes")


@pytest.mark.parametrize(
    ("cc", "axes", "message"),
    [
        ("bbr2", ["los_thresh=0.02"], r"did you mean `loss_thresh`"),
        ("bbr2", ["probe_rtt_win_ms=-1"], r"is -1; expected a number from .* ms"),
        ("bbr2", ["loss_thresh"], r"grid: 'loss_thresh'; expected tunable=value"),
        ("bbr2", ["loss_thresh=0.1", "loss_thresh=0.2"], "is given twice"),
        ("bbr2", [], "grid: none given"),
        ("bbr2+cubic", ["loss_thresh=0.1"], "a grid has one controller"),
        ("bbr22", ["loss_thresh=0.1"], "did you mean"),
    ],
)
def test_an_invalid_grid_is_refused(cc, axes, message):
    with pytest.raises(UserError, match=message):
        parse_grid(cc, axes)


def test_a_grid_of_a_million_points_is_refused_with_its_cost(lossy, tmp_path):
    values = ",".join(f"{100 + i}" for i in range(1000))
    losses = ",".join(f"{0.001 * (i + 1) / 2:.5f}" for i in range(1000))
    grid = parse_grid("bbr2", [f"probe_rtt_win_ms={values}", f"loss_thresh={losses}"])
    assert grid.size == 1_000_000
    with pytest.raises(UserError, match=r"1,000,000 points on 2 paths are 2,000,000 Runs, about .* try `agreed` to"):
        tune([lossy], grid, out=tmp_path, duration_s=2, seeds=2)
    assert not list(tmp_path.iterdir())
    assert search._span(3 * 86400) == "3.0 days"


def test_an_expensive_grid_is_refused_the_second_time_too(lossy, tmp_path, monkeypatch):
    clock = iter(range(100))  # each Run takes a second
    monkeypatch.setattr(search, "_spent_s", lambda: float(next(clock)))
    grid = parse_grid("bbr2", ["loss_thresh=0.02,0.2"])
    monkeypatch.setattr(search, "UNCONFIRMED_S", 1.5)
    for _ in range(2):
        with pytest.raises(UserError, match=r"2 points on 1 paths are 2 Runs"):
            tune([lossy], grid, out=tmp_path, duration_s=2)
    assert len(tune([lossy], grid, out=tmp_path, duration_s=2, agreed=True).cells) == 2
    with pytest.raises(UserError, match="2 Runs"):  # now all of them are in the table
        tune([lossy], grid, out=tmp_path, duration_s=2)


def swept_run(scheme, label, seed, goodput_bps):
    measures = {"goodput_bps": [goodput_bps], "rtt_ms": [40.0]}
    return SimpleNamespace(scheme=scheme, label=label, seed=seed, record=SimpleNamespace(valid=True), measures=measures)


def test_a_point_is_scored_on_what_both_finished_and_one_that_failed_is_not_the_best():
    """The seed on which it failed is the hard one."""
    runs = [swept_run("d", f"p{k}", seed, 1e6 if seed == 0 else 0.1e6) for k in range(4) for seed in range(2)]
    runs += [swept_run("x", f"p{k}", 0, 1.1e6) for k in range(4)]
    scored = score(runs, "x", "d")
    assert scored.missing == 4
    assert scored.gain.mean == pytest.approx(1.1)
    cell = SimpleNamespace(score=scored)
    assert search.best_of([cell], 0.1) is None
    by_default = [one for one in runs if one.scheme == "x" or one.seed == 0]
    assert score([*by_default, swept_run("x", "p0", 1, 0.2e6)], "x", "d").missing == 0, "the default failed, not it"
    whole = score([*runs, *(swept_run("x", f"p{k}", 1, 0.11e6) for k in range(4))], "x", "d")
    assert whole.gain.mean == pytest.approx(1.1)
    assert search.best_of([SimpleNamespace(score=whole)], 0.1).score is whole


def test_groups_are_read_with_their_tunables():
    groups = parse_groups("8xcubic,2xbbr2:loss_thresh=0.08,probe_rtt_win_ms=4000,reno")
    assert [(each.count, each.scheme) for each in groups] == [
        (8, "cubic"),
        (2, "bbr2:loss_thresh=0.08,probe_rtt_win_ms=4000"),
        (1, "reno"),
    ]
    assert scheme_of_groups(groups[1:]).count("+") == 2
    for text, message in (
        ("0xcubic,reno", "0 flows"),
        ("cubic", "one flow"),
        ("2xcubix", "did you mean"),
        ("2x", "expected"),
    ):
        with pytest.raises(UserError, match=message):
            parse_groups(text)


def test_equal_flows_share_evenly_and_more_so_over_longer_times(tmp_path):
    path = preset_profile("dumbbell:rate=10mbit,rtt=40ms,queue=1bdp", duration_s=60)
    shares = fairness([path], [Group(2, "reno"), Group(2, "reno")], out=tmp_path)
    assert sum(each.mean for each in shares.shares) == pytest.approx(1.0)
    assert shares.scales[-1].jain.mean >= shares.scales[0].jain.mean
    assert shares.scales[0].jain.mean <= 1.0
    assert shares.ratios[0].size == 50
    assert np.isfinite(np.median(shares.ratios[0]))
    assert plot_fairness({"reno": shares}, title="t").axes
    assert shares.to_dict()["groups"][0]["fair_share"] == 0.5
