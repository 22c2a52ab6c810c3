"""Runs of one scheme and Profile from Experiments that differ share no row: in reports, comparisons and tables."""

import html
import shutil

import pytest
from object_profiles import dumbbell

import bentpipe as bp
from bentpipe.report.content import parts
from bentpipe.report.place import Place
from bentpipe.runs.apart import distinguish
from bentpipe.runs.manifest import place_of


@pytest.fixture(scope="module")
def sets():
    path = dumbbell(duration=2)
    options = [{}, {"queue": "fq_codel"}, {"queue": "fq_codel:target_ms=20"}, {"direction": "up"}, {"traffic": "peak"}]
    return [bp.Experiment(path, "cubic", **each).simulate() for each in options]


def test_experiments_are_named_by_their_differences(sets):
    runs = [run.stored for each in sets for run in each]
    names = [run.experiment for run in distinguish(runs)]
    assert names == [
        "race-down · the Profile's queues",
        "race-down · fq_codel",
        "race-down · fq_codel, settings 2",
        "race-up",
        "race-down-peak",
    ]
    assert [place_of(run) for run in distinguish(runs)] == [place_of(run) for run in runs]
    assert [run.experiment for run in distinguish(runs[:1])] == ["race-down"]
    controllers = bp.Experiment(dumbbell(duration=2), ["cubic", "reno+bbr"], seeds=2).simulate()
    assert {run.experiment for run in distinguish(run.stored for run in controllers)} == {"race-down"}
    faster = bp.Experiment(bp.Profile.preset("dumbbell:rate=50mbit", duration=2, name="dumbbell"), "cubic").simulate()
    names = [run.experiment for run in distinguish([runs[0], faster[0].stored])]
    assert len(set(names)) == 2
    assert all(name.startswith("race-down · Profile ") for name in names)


def test_experiments_whose_controllers_are_swapped_are_two():
    flows = [
        [bp.Flow("cubic"), bp.Flow("reno", direction="up")],
        [bp.Flow("cubic", direction="up"), bp.Flow("reno")],
    ]
    runs = [bp.Experiment(dumbbell(duration=2), flows=each).simulate()[0].stored for each in flows]
    assert runs[0].scheme == runs[1].scheme
    assert [run.experiment for run in distinguish(runs)] == ["flows", "flows · settings 2"]


def test_a_name_with_a_dot_is_one_name(tmp_path):
    flows = [bp.Flow("cubic"), bp.Flow("reno")]
    runs = bp.Experiment(dumbbell(duration=2), flows=flows, name="mine · yours", seeds=2).simulate()
    named = distinguish(run.stored for run in runs)
    assert {run.experiment for run in named} == {"mine · yours"}
    assert {place_of(run)[0] for run in named} == {"mine · yours"}
    page = html.unescape(runs.report(tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "<h1>Download: server to terminal</h1>" in page


def test_limits_of_buffers_are_named_for_bulk_flows_whatever_the_name(tmp_path):
    path = dumbbell(duration=4)
    small = bp.Flow("cubic", sender="small")
    bulk = bp.Experiment(path, flows=[small], hosts={"small": {"wmem_max_bytes": 20_000}}, name="mine")
    asks = bp.Experiment(path, flows=[bp.Flow("cubic", app="request:200bytes/1kb,think=1s")], name="race-down")
    pages = [each.simulate().report(tmp_path / "page.html").read_text(encoding="utf-8") for each in (bulk, asks)]
    assert ["Buffers at the hosts (rwnd, sndbuf)" in page for page in pages] == [True, False]


def test_missing_runs_count_in_the_part_of_their_settings(tmp_path):
    path, fair, own = dumbbell(duration=2), {"queue": "fq_codel"}, {}
    for scheme, options in (("cubic", fair), ("reno", own), ("bbr", {"direction": "up"})):
        bp.Experiment(path, scheme, seeds=3, **options).simulate(tmp_path)
    runs = bp.RunSet.read(tmp_path)
    for each in (runs["reno", 1], runs["reno", 2], runs["bbr", 0], runs["bbr", 1], runs["bbr", 2]):
        shutil.rmtree(each.folder)
    content = parts(Place.in_folder(tmp_path), distinguish(run.stored for run in bp.RunSet.read(tmp_path)))
    assert {part.experiment: part.unfinished.partition(" are stored")[0] for part in content} == {
        "race-down · fq_codel": "Unfinished: 3 Runs missing, of Experiments without a stored Run.",
        "race-down · the Profile's queues": "Unfinished: 1 of 3 Runs",
    }


def test_a_report_has_a_part_for_each(sets, tmp_path):
    both = bp.RunSet([run for each in sets[:2] for run in each])
    page = html.unescape(both.report(tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "Download: server to terminal (fq_codel)" in page
    named = {run.experiment: run for run in distinguish(run.stored for run in both)}
    content = parts(Place(tmp_path / "page.html", None), list(named.values()))
    assert sorted(part.experiment for part in content) == sorted(named)
    for part in content:
        (section,), run = part.sections, named[part.experiment]
        assert len(section.rows) == len(section.losses) == len(section.limits) == 1
        assert section.rows[0].cells[0].estimate.mean == run.flows[0]["goodput_bps"]


def test_a_comparison_pairs_and_groups_by_experiment(sets, tmp_path):
    both = [bp.RunSet([run for each in sets for run in each]) for _ in range(2)]
    comparison = bp.Comparison(*both)
    table = comparison.to_polars()
    assert table["n"].to_list() == [1] * 5
    assert table["experiment"].n_unique() == 5
    assert table["goodput_a_bps"].n_unique() > 1
    page = html.unescape(comparison.report(tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "dumbbell, race-down · fq_codel" in page
    assert "dumbbell, race-up" in page
