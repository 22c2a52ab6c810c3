"""leo-field and hint-error: what they measure, what they conclude from it, and that their files can be run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bentpipe.errors import UserError
from bentpipe.execution import cluster
from bentpipe.experiments.schemes import known_controllers, parse_scheme
from bentpipe.plots.error_curves import plot_error_curves
from bentpipe.plots.pareto import plot_pareto
from bentpipe.studies import field, leo_field
from bentpipe.studies.files import HintError, HintUser, LeoField
from bentpipe.studies.flows import RunBatch
from bentpipe.studies.study import Request
from bentpipe.times import parse_utc

DUMBBELL = "dumbbell:rate=20mbit,rtt=40ms,queue=100ms"


def test_the_queueing_delay_is_the_time_of_packets_in_queues(tmp_path: Path) -> None:
    path = field.preset_path(DUMBBELL, 8)
    scores = field.race_field(Request(tmp_path), [path], ["reno", "bbr3", "reno+bbr3"], (8.0, 3.0))
    reno, bbr3 = scores[path.name, "reno"][0], scores[path.name, "bbr3"][0]
    # Reno fills the 100 ms again and again; BBR v3 keeps it nearly empty. Both carry 20 Mbit/s less headers.
    assert reno.queue_ms is not None
    assert bbr3.queue_ms is not None
    assert 40 < reno.queue_ms < 101
    assert 0 <= bbr3.queue_ms < 25
    assert all(17e6 < score.goodput_bps[0] < 20e6 for score in (reno, bbr3))
    assert len(scores[path.name, "reno+bbr3"][0].goodput_bps) == 2


def test_paths_of_the_study_differ_from_those_of_the_design() -> None:
    file = LeoField.load()
    paths, design = ({tuple(text.split()) for text in texts} for texts in (file.paths, file.design))
    assert len(paths) >= 20
    assert not {(site, to, start) for site, to, start, _ in paths} & {
        (site, to, start) for site, to, start, _ in design
    }
    assert not {seed for *_, seed in paths} & {seed for *_, seed in design}


def test_runs_are_written_to_the_requested_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 0.2)
    path = field.preset_path(DUMBBELL, 8)
    nobody = Request(tmp_path, on="tcp://127.0.0.1:9")
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9"):
        field.race_field(nobody, [path], ["reno"], (8.0, 3.0))
    runs = RunBatch()
    runs.add(("reno",), field._experiment(path, "reno", 8.0, 3.0), path.profile)
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9"):
        runs.run(nobody)


def test_intervals_contain_their_mean_and_narrow_with_more_profiles() -> None:
    draws = np.random.default_rng(3).normal(0.9, 0.05, 400)
    few, many = field.bootstrap(draws[:10]), field.bootstrap(draws)
    assert few[1] < few[0] < few[2]
    assert many[2] - many[1] < few[2] - few[1]
    assert np.isnan(field.bootstrap([])).all(), "a controller that never got through has no delay"
    ratio, low, high = field.bootstrap_ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert (ratio, low, high) == (2.0, 2.0, 2.0)


def test_verdicts_follow_the_figures() -> None:
    published = LeoField.load().published
    shares = {"bbr3-leo": [0.97, 0.99, 0.98] * 3, "cubic-leo": [0.8, 0.9, 0.85] * 3, "cubic": [0.5, 0.6, 0.55] * 3}
    queues = {"bbr3-leo": [20.0, 30.0, 25.0] * 3, "bbr": [60.0, 70.0, 65.0] * 3, "cubic": [40.0] * 9}
    queues["cubic-leo"] = [30.0, 32.0, 31.0] * 3

    def holds() -> list[bool | None]:
        return [verdict.holds for verdict in leo_field._ours(shares, queues, published, "b")[1]]

    assert holds() == [True, True, True, True]
    rows, _ = leo_field._ours(shares, queues, published, "b")
    assert [row.published for row in rows] == [0.95, 0.5, 1.0, 1.0]
    shares |= {"bbr3-leo": [0.90, 0.91, 0.92] * 3, "cubic-leo": [0.4] * 9}
    queues |= {"bbr3-leo": [40.0, 50.0, 45.0] * 3, "cubic-leo": [70.0] * 9}
    assert holds() == [False, False, False, False]
    shares |= {"bbr3-leo": [0.80, 0.99, 0.999] * 3, "cubic-leo": [0.3, 0.8, 0.6] * 3}
    queues |= {"bbr3-leo": [10.0, 50.0, 35.0] * 3, "cubic-leo": [20.0, 60.0, 41.0] * 3}
    assert holds() == [None, None, None, None]
    shares = {name: values[:3] for name, values in shares.items()}
    queues = {name: [1.0] * 3 for name in queues}
    assert set(holds()) == {None}  # three Profiles are few


def test_a_profile_without_goodput_counts_against_our_controller() -> None:
    names = ["a", "b"]
    got, nothing = field.Score((9e6,), 20.0), field.Score((0.0,), None)
    scores = {(name, "bbr"): [got] for name in names} | {("a", "bbr3-leo"): [got], ("b", "bbr3-leo"): [nothing]}
    assert leo_field._known(scores, names, ["bbr", "bbr3-leo"]) == names
    assert leo_field._shares(scores, names, ["bbr", "bbr3-leo"])["bbr3-leo"] == [1.0, 0.0]
    queues = leo_field._queues(scores, names, ["bbr", "bbr3-leo"])
    assert leo_field._of_both(queues["bbr3-leo"], queues["bbr"]) == ([20.0], [20.0])
    scores |= {("b", "bbr"): [nothing]}
    assert leo_field._known(scores, names, ["bbr", "bbr3-leo"]) == ["a"]


def test_a_claim_of_never_is_decided_by_the_smallest_seed() -> None:
    path = SimpleNamespace(name="geo", traffic=None)
    scores = {("geo", e): [field.Score((100e6,), 1.0)] * 6 for e in ("bbr3", "cubic", "cubic-leo")}
    scores["geo", "bbr3-leo"] = [field.Score((97e6,), 1.0), *[field.Score((101e6,), 1.0)] * 5]
    _, verdicts = leo_field._still(scores, [path], LeoField.load().published, "b")
    assert [verdict.holds for verdict in verdicts if "bbr3-leo" in verdict.statement] == [False, True]


def test_a_pair_is_judged_by_jain_and_cubics_goodput() -> None:
    names = [f"p{i}" for i in range(8)]
    scores = {}
    for name in names:
        scores[name, "bbr3-leo+cubic"] = [field.Score((60e6, 40e6), 20.0)]
        scores[name, "bbr3+cubic"] = [field.Score((90e6, 10e6), 60.0)]
        scores[name, "cubic-leo+cubic"] = [field.Score((80e6, 20e6), 60.0)]
        scores[name, "cubic+cubic"] = [field.Score((50e6, 50e6), 60.0)]
    _, (ours, cubic) = leo_field._fair(scores, names, LeoField.load().published, "b")
    assert ours.holds
    assert "× 4.000" in ours.why
    assert cubic.holds is False


def test_the_files_name_known_controllers_and_enough_paths() -> None:
    file = LeoField.load()
    assert set(file.left_out) <= set(known_controllers())
    assert len(file.paths) >= 20
    assert len({path.split()[3] for path in file.paths}) == len(file.paths)
    for user in HintError.load().users.values():
        for scheme in (user.hinted, user.wrong, user.none, user.parent):
            assert parse_scheme(scheme)


def test_a_clock_that_is_withheld_has_no_moment_in_any_run() -> None:
    file = HintError.load()
    starts_ns = [parse_utc(path.split()[2]) for path in file.paths]
    for user in file.users.values():
        none = user.none
        if "period_s" in none:
            at = dict(each.split("=") for each in none.partition(":")[2].split(","))
            period_s, moment_s = float(at["period_s"]), float(at["reassigned_at_s"])
            ahead_s = [(moment_s - start_ns / 1e9) % period_s for start_ns in starts_ns]
            assert min(ahead_s) > file.duration_s + 10  # nor is one near enough to prepare for
            assert user.hinted == none.partition(":")[0]


def test_an_error_is_written_into_the_scheme() -> None:
    user = HintUser(hinted="bbr3-leo:hints=schedule", wrong="-", none="-", parent="bbr3", wrong_is="-")
    assert user.late(0) == "bbr3-leo:hints=schedule"
    assert parse_scheme(user.late(-200)) == parse_scheme("bbr3-leo:hint_offset_ms=-200,hints=schedule")


@pytest.mark.parametrize("name", ["bbr", "bbr3-leo"])
def test_figures_show_every_scheme(name: str) -> None:
    figure = plot_pareto(
        {name: ([10.0, 20.0], [0.9, 1.0]), "cubic": ([30.0, 40.0], [0.5, 0.6])}, cost="cost", gain="gain"
    )
    assert len(figure.axes[0].get_legend().get_texts()) == 2
    lines = plot_error_curves({name: ([-1.0, 0.0, 1.0], [1.0, 1.1, 1.0])}, error="error", quantity="goodput")
    assert list(lines.axes[0].lines[0].get_ydata()) == [1.0, 1.1, 1.0]
