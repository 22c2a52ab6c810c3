"""Tests of latency under load: `race --test`, `Experiment(test=…)`, Experiment files, and the summary of pings."""

import dataclasses
import json
import re

import pytest
from typer.testing import CliRunner

import bentpipe as bp
from bentpipe import _native
from bentpipe.cli.main import app
from bentpipe.errors import UserError
from bentpipe.execution import kernel
from bentpipe.execution.plan import label_profiles, plan_race
from bentpipe.experiments.experiment import Experiment, Flow, ProfileRef
from bentpipe.experiments.file import parse_experiment
from bentpipe.experiments.plugins import simulate
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.rows import ApplicationRow
from bentpipe.runs.store import find_runs
from bentpipe.runs.summary import counted
from bentpipe.scenarios.load_tests import load_tests, parse_load_tests

S = 1_000_000_000
BASE_MS = 40 + 2 * 84 * 8 / 10e6 * 1e3  # 40 ms, and 84 bytes at 10 Mbit/s each way
FULL_MS = 40.0  # a queue of one BDP


@pytest.fixture(scope="module")
def path():
    return bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms,queue=1bdp", duration=40)


@pytest.fixture(scope="module")
def runs(path):
    return bp.Experiment(path, schemes=["cubic", "bbr"], test="rrul", seeds=2).simulate()


def bentpipe(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def flows_of(run):
    return [
        (flow.controller, flow.direction, flow.start_ns / S, flow.stop_ns / S) for flow in run.record.experiment.flows
    ]


def test_rrul_is_four_flows_each_way_between_five_idle_seconds(runs):
    assert flows_of(runs["cubic", 0]) == [("cubic", "down", 5.0, 35.0)] * 4 + [("cubic", "up", 5.0, 35.0)] * 4
    (pings,) = runs["cubic", 0].record.experiment.pings
    assert (pings.every_ns, pings.bytes, pings.start_ns, pings.stop_ns) == (50_000_000, 84, 0, None)
    assert runs["cubic", 0].stored.names == ["cubic"] * 8
    assert runs["bbr", 1].experiment == "test-rrul"
    assert runs["bbr", 1].record.experiment.test == "rrul"


def test_an_experiment_with_the_name_of_a_test_is_none(path, tmp_path):
    own = bp.Experiment(path, flows=[bp.Flow("cubic")], name="test-rrul", duration=5).simulate()
    assert own[0].record.experiment.test is None
    page = own.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h1>Download: server to terminal</h1>" in page
    write_profile(path.native, tmp_path / "p.parquet")
    text = FILE.format("").replace('"mine"', '"test-rrul"') + '[[flows]]\ncontroller = "cubic"\n'
    (tmp_path / "e.toml").write_text(text)
    done = bentpipe("race", "-x", tmp_path / "e.toml", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert "goodput after the warm-up" in " ".join(done.stdout.split())
    assert "RTT p99" not in done.stdout


def test_each_test_of_a_folder_has_a_table_of_its_own(path, tmp_path):
    for test in ("tcp_down", "tcp_up"):
        bp.Experiment(path, schemes=["cubic"], test=test, duration=15).simulate(tmp_path / "out")
    done = bentpipe("race", "--repeat", tmp_path / "out", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    titles = re.findall(r"(\S+): means over seeds; RTTs of pings", " ".join(done.stdout.split()))
    assert titles == ["test-tcp_down", "test-tcp_up"]
    with pytest.raises(UserError, match=r"cubic over .* is of two Experiments \(test-tcp_down; test-tcp_up\)"):
        bp.RunSet.read(tmp_path / "out").plot.latency()


def test_runs_with_other_pings_are_not_alike(runs):
    first, second = (runs["cubic", seed].stored for seed in (0, 1))
    assert len(counted([first, second])) == 1  # chance has no effect on CUBIC over a dumbbell
    (pings,) = second.pings
    other = {**second.record.summary, "pings": [{**pings, "lost": pings["lost"] + 1}]}
    changed = dataclasses.replace(second, record=second.record.replace(summary=other))
    assert len(counted([first, changed])) == 2


def test_pings_on_their_way_at_the_end_are_sent_and_neither_lost_nor_answered():
    far = bp.Profile.preset("dumbbell:rate=10mbit,rtt=240ms", duration=15)
    run = bp.Experiment(far, schemes=["cubic"], test="tcp_down").simulate()[0]
    (figures,) = run.record.summary["pings"]
    assert (figures["sent"], figures["lost"], figures["in_flight"]) == (300, 0, 4)
    assert run.pings().height == 296
    assert not run.pings()["lost"].any()
    assert figures["loads"][0]["in_flight"] == 4


def test_latency_under_load_has_the_loads_one_after_the_other(path):
    run = bp.Experiment(path, schemes=["bbr:min_rtt_win_s=5"], test="latency_under_load").simulate()[0]
    times = {(direction, start, stop) for _, direction, start, stop in flows_of(run)}
    assert times == {("down", 5, 15), ("up", 15, 25), ("down", 25, 35), ("up", 25, 35)}
    assert [load["load"] for load in run.record.summary["pings"][0]["loads"]] == ["idle", "down", "up", "both"]
    assert run.record.experiment.flows[0].options == {"min_rtt_win_s": 5.0}
    assert run.stored.names[3] == "bbr:min_rtt_win_s=5"


def test_pings_are_idle_before_the_flows_and_wait_in_the_queue_beside_them(runs):
    pings = runs["cubic", 0].pings()
    assert pings.columns == ["t_s", "path", "rtt_ms", "lost"]
    assert pings["path"].unique().to_list() == ["path"]
    assert pings["t_s"].is_sorted()
    assert 790 < pings.height <= 800
    idle = pings.filter((pings["t_s"] < 4.9) | (pings["t_s"] > 37))
    assert idle["rtt_ms"].to_list() == pytest.approx([BASE_MS] * idle.height, abs=1e-6)
    loaded = pings.filter(pings["t_s"].is_between(7, 35) & ~pings["lost"])["rtt_ms"]
    assert BASE_MS + 25 < loaded.quantile(0.5) < BASE_MS + 2 * FULL_MS + 3  # two queues, seldom full at once


def test_the_summary_is_of_the_pings_and_the_goodput_of_each_load(runs):
    table = runs.latency()
    assert table.select("scheme", "load", "n").rows() == [
        ("cubic", "idle", 1), ("cubic", "both", 1),  # chance has no effect on CUBIC over a dumbbell
        ("bbr", "idle", 2), ("bbr", "both", 2),
    ]  # fmt: skip
    cubic = {row["load"]: row for row in table.filter(table["scheme"] == "cubic").to_dicts()}
    assert cubic["idle"]["rtt_p99_ms"] == pytest.approx(BASE_MS, abs=1e-6)
    assert (cubic["idle"]["lost"], cubic["idle"]["down_bps"], cubic["idle"]["up_bps"]) == (0, 0, 0)
    assert all(8.5e6 < cubic["both"][name] < 9.7e6 for name in ("down_bps", "up_bps"))
    pings = runs["cubic", 0].pings()
    inside = pings.filter(pings["t_s"].is_between(7, 35, closed="left"))
    assert cubic["both"]["rtt_p50_ms"] == pytest.approx(
        inside["rtt_ms"].drop_nulls().sort()[-(-inside["rtt_ms"].count() // 2) - 1]
    )
    for quantile in ("p50", "p95"):  # over a path of constant delay
        excess_ms = cubic["both"][f"rtt_{quantile}_ms"] - 40
        assert cubic["both"][f"excess_{quantile}_ms"] == pytest.approx(excess_ms, abs=1e-6)
    assert cubic["idle"]["excess_p50_ms"] == pytest.approx(BASE_MS - 40, abs=1e-6)
    assert cubic["both"]["lost"] == pytest.approx(inside["lost"].mean())
    assert cubic["both"]["rtts_per_min"] == pytest.approx(60_000 / cubic["both"]["rtt_p50_ms"])
    flows = runs.summary().filter(scheme="cubic")
    assert flows["ping_idle_ms"].to_list() == pytest.approx([cubic["idle"]["rtt_p50_ms"]] * 8)
    assert flows["ping_loaded_ms"].to_list() == pytest.approx([cubic["both"]["rtt_p50_ms"]] * 8)
    assert flows["ping_lost"].to_list() == pytest.approx([cubic["both"]["lost"]] * 8)


def test_a_fair_queue_keeps_the_pings_short(path):
    fair = bp.Experiment(path, schemes=["cubic"], test="rrul", queue="fq_codel").simulate()
    both = fair.latency().filter(load="both").to_dicts()[0]
    assert both["rtt_p95_ms"] < BASE_MS + 8  # a packet of each of four flows in each direction: 2 x 4 x 1.2 ms at most


def test_pings_of_an_outage_are_lost():
    computed = bp.Profile.make(site="melbourne", to="sydney", start="2026-05-10T09:00Z", duration=30, seed=4)
    run = bp.Experiment(computed, schemes=["cubic"], test="tcp_up", phase=0).simulate()[0]
    (figures,) = run.record.summary["pings"]
    pings = run.pings()
    assert (figures["sent"] - figures["in_flight"], figures["lost"]) == (pings.height, pings["lost"].sum())
    assert [load["load"] for load in figures["loads"]] == ["idle", "up"]


def test_a_run_without_pings_has_none(path):
    run = bp.Experiment(path, schemes=["cubic"], duration=3).simulate()[0]
    assert run.pings().height == 0
    assert run.applications() is None
    assert "pings" not in run.record.summary
    assert "pings" not in run.record.experiment.to_dict()
    assert bp.RunSet([run]).latency().height == 0
    assert bp.RunSet([run]).summary()["ping_idle_ms"].to_list() == [None]


def test_pings_have_flow_numbers_after_the_flows_and_are_the_same_each_time(path):
    again = [bp.Experiment(path, schemes=["cubic"], test="tcp_down", duration=15).simulate()[0] for _ in range(2)]
    assert again[0].content_hash == again[1].content_hash
    assert set(again[0].links()["flow"].unique()) == {-1, 0, 1}
    assert set(again[0].samples()["flow"].unique()) == {0}
    items = again[0].applications()
    assert items["kind"].unique().to_list() == ["ping"]
    assert items["flow"].unique().to_list() == [1]


def test_an_unknown_test_is_refused_with_the_nearest_name(path, tmp_path):
    with pytest.raises(UserError, match=r"unknown test 'rul'.*did you mean.*rrul.*tcp_down"):
        bp.Experiment(path, schemes=["cubic"], test="rul")
    file = tmp_path / "p.parquet"
    write_profile(path.native, file)
    done = bentpipe("race", file, "--test", "rul", "-o", tmp_path / "out")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("error: --test: unknown test 'rul'")
    assert "rrul" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--app", "bulk"], "--test: the test decides its flows, so --app cannot be given with it"),
        (["--direction", "up"], "--test: the test decides its flows, so --direction cannot be given with it"),
        (["--traffic", "peak"], "--test: the test decides its flows, so --traffic cannot be given with it"),
        (["--cc", "cubic+bbr"], "--cc: 'cubic+bbr' in the test rrul; expected one controller for all flows of a test"),
        (["--duration", "14"], "--duration: 14 s; expected at least 15 s for the test rrul, of which 10 s are idle"),
        (["--on-kernel", "--cc", "cubic"], "--on-kernel: pings beside the flows; expected none"),
    ],
)
def test_options_that_do_not_fit_a_test_are_refused_in_one_line(path, tmp_path, options, message):
    file = tmp_path / "p.parquet"
    write_profile(path.native, file)
    done = bentpipe("race", file, "--test", "rrul", *options, "-o", tmp_path / "out")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.stderr
    assert message in done.stderr


def test_python_refuses_what_a_test_decides(path):
    for given in ({"direction": "up"}, {"traffic": "peak"}, {"app": "bulk"}, {"flows": [bp.Flow("cubic")]}):
        with pytest.raises(UserError, match=f"test: given with {next(iter(given))}"):
            bp.Experiment(path, test="rrul", **given)
    with pytest.raises(UserError, match="the Experiment has test"):
        bp.Experiment(path, schemes=["bbr2"], test="rrul").tune({"loss_thresh": [0.02]}, out="unused")


def test_a_kernel_refuses_pings(path, tmp_path, monkeypatch):
    available = tmp_path / "available"
    available.write_text("cubic\n")
    monkeypatch.setattr(kernel, "AVAILABLE", available)
    work = plan_race(
        label_profiles([path.native]), ["cubic"], "down", None, 1, tmp_path, 0.0, "emulated", test="tcp_down"
    )
    with pytest.raises(UserError, match="pings beside the flows; expected none, only the simulator"):
        kernel.check(work)


def test_the_help_names_every_test():
    text = bentpipe("race", "--help").stdout
    assert all(name in text for name in load_tests())


def test_a_race_with_a_test_prints_a_row_for_each_load(path, tmp_path):
    file, out = tmp_path / "p.parquet", tmp_path / "out"
    write_profile(path.native, file)
    arguments = ["race", file, "--test", "rrul", "--cc", "cubic,bbr", "--duration", 20, "-o", out]
    done = bentpipe(*arguments)
    assert done.exit_code == 0, done.stderr
    assert "RTT p99 [ms]" in done.stdout
    assert "retransmitted" not in done.stdout
    assert [line.split()[:2] for line in done.stdout.splitlines() if "both" in line or "idle" in line] == [
        ["cubic", "idle"], ["both", done.stdout.split("both")[1].split()[0]],
        ["bbr", "idle"], ["both", done.stdout.split("both")[2].split()[0]],
    ]  # fmt: skip
    (first, _) = find_runs(out)
    assert first.path.parts[-4] == "test-rrul"
    again = bentpipe(*arguments, "--json")
    document = json.loads(again.stdout)
    assert {flow["controller"] for run in document["runs"] for flow in run["flows"]} == {"cubic", "bbr"}
    assert [load["load"] for load in document["runs"][0]["pings"][0]["loads"]] == ["idle", "both"]


FILE = """
name = "mine"
duration_s = 20
{}
[[profiles]]
role = "access"
file = "p.parquet"
"""


def test_a_file_may_have_a_test_or_pings(tmp_path):
    test = parse_experiment(FILE.format('test = "tcp_up"\ncontroller = "bbr:min_rtt_win_s=5"'), "e.toml", tmp_path)
    (flow,) = test.experiment.flows
    assert (flow.direction, flow.options, flow.profile) == ("up", {"min_rtt_win_s": 5.0}, "access")
    assert test.experiment.pings[0].profile == "access"
    assert test.experiment.warmup_ns == 2.5 * S
    text = FILE.format("") + '[[flows]]\ncontroller = "cubic"\n[[pings]]\nevery_s = 0.1\nstart_s = 1\nstop_s = 9\n'
    (pings,) = parse_experiment(text, "e.toml", tmp_path).experiment.pings
    assert pings.to_dict() == {
        "every_ns": S // 10, "bytes": 84, "profile": "access", "start_ns": S, "stop_ns": 9 * S,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "e.toml: key 'flows' is missing; expected flows, or test with a controller"),
        ('controller = "cubic"\n[[flows]]\ncontroller = "cubic"', "e.toml: controller without test"),
        ('test = "rrul"', "e.toml: key 'controller' is missing"),
        ('test = "rul"\ncontroller = "cubic"', "e.toml: test: unknown test 'rul'"),
        ('test = "rrul"\ncontroller = "cubic+bbr"', "e.toml: schemes: 'cubic+bbr' in the test rrul"),
        ('test = "rrul"\ncontroller = "cubic"\n[[pings]]\nevery_s = 1', "e.toml: pings with test; expected test alone"),
        ('[[flows]]\ncontroller = "cubic"\n[[pings]]\nevery_s = 1\nprofile = "x"', "e.toml: pings[0]: profile is 'x'"),
        ('[[flows]]\ncontroller = "cubic"\n[[pings]]\nevery_s = 1\nbytes = 20', "e.toml: pings[0]: bytes is 20"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path, text, message):
    with pytest.raises(UserError) as caught:
        parse_experiment(FILE.format(text), "e.toml", tmp_path)
    assert str(caught.value).startswith(message), str(caught.value)


DEFINITION = """
idle_s = 1
ping_every_ms = 20
ping_bytes = 84
[load_tests.t]
loads = [{}]
description = "d"
source = "s"
"""


def test_the_definitions_are_data_that_is_checked():
    test = parse_load_tests(DEFINITION.format("{ up = 2 }"), "t.toml")["t"]
    assert test.loads[0].directions == ["up", "up"]
    with pytest.raises(UserError, match=r"t.toml: load_tests.t.loads\[0\]: down and up are 0"):
        parse_load_tests(DEFINITION.format("{}"), "t.toml")


def test_hidden_fields_of_an_experiment_are_refused_by_the_simulator():
    native = preset_profile("dumbbell:rate=10mbit", 4.0)
    reference = ProfileRef(role="path", name=native.name, hash=native.content_hash())
    experiment = Experiment(
        name="e", duration_ns=4 * S, profiles=(reference,), flows=(Flow(controller="cubic"),),
        pings=({"every_ns": S, "start_ns": 4 * S},),
    )  # fmt: skip
    with pytest.raises(UserError, match=r"pings\[0\].start_ns: 4000000000; expected a time before the end"):
        simulate(experiment, [native])
    assert _native.__version__


def test_a_race_with_a_test_is_repeated_from_its_folder(path, tmp_path):
    file, out, again = tmp_path / "p.parquet", tmp_path / "out", tmp_path / "again"
    write_profile(path.native, file)
    done = bentpipe("race", file, "--test", "tcp_up", "--cc", "reno", "--duration", 15, "--aqm", "fq_codel", "-o", out)
    assert done.exit_code == 0, done.stderr
    assert bentpipe("race", "--repeat", out, "-o", again).exit_code == 0
    ((first,), (second,)) = find_runs(out), find_runs(again)
    assert first.record.content_hash == second.record.content_hash
    assert first.pings[0]["sent"] == 300


def test_pings_are_rows_while_the_race_goes_on(path):
    rows = []
    race = bp.Experiment(path, schemes=["cubic"], test="tcp_down", duration=15)
    (run,) = race.simulate(on_row=rows.append)
    items = [row for row in rows if isinstance(row, ApplicationRow)]
    assert [(row.kind, row.flow, row.id) for row in items] == [("ping", 1, number) for number in range(300)]
    assert sum(row.completed_s is None for row in items) == run.pings()["lost"].sum()


def test_the_excess_of_idle_pings_is_small_where_the_path_changes():
    computed = bp.Profile.make(site="louvain", to="london", start="2026-05-10T09:00Z", duration=45, loss="idle")
    runs = bp.Experiment(computed, schemes=["cubic"], test="tcp_down", phase=0).simulate()
    idle, down = runs.latency().to_dicts()
    assert 0 <= idle["excess_p50_ms"] < 1
    assert idle["rtt_p95_ms"] > idle["rtt_p50_ms"] + 2  # the path's own course
    assert idle["excess_p95_ms"] < 2
    assert down["excess_p50_ms"] < down["rtt_p50_ms"] - 20
