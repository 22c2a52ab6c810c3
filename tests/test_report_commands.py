"""The report of `bentpipe run`: by command, direction and controller, without idle connections."""

import html
import json
import shutil

import numpy as np
import polars as pl
import pytest
from matplotlib.patches import StepPatch

import bentpipe as bp
from bentpipe.execution.racing import race
from bentpipe.experiments.flow_names import flow_parts
from bentpipe.plots.timeline import plot_sharing, plot_timeline
from bentpipe.profiles.presets import preset_profile
from bentpipe.report.build import write_report
from bentpipe.report.program import repeat, sentences
from bentpipe.runs import store
from bentpipe.runs.commands import by_command, idle_connections
from bentpipe.runs.run_record import RunRecord
from bentpipe.runs.store import find_runs
from bentpipe.runs.summary import summarise

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z
DOWN = ["iperf3", "-c", "server", "-R", "-C", "bbr"]
UP = ["iperf3", "-c", "server", "-C", "cubic+$x$"]
PROGRAM = {
    "server": "iperf3 -s",
    "server_log": "server.log",
    "at_end": "loop",
    "mtu": 1500,
    "gateway_controller": None,
    "internet": "public",
    "queues": [],
    "listen_within_s": 10.0,
}


def keep_program(out, raced, command, number, **program):
    """Store a simulated Run as if a program had made it, with a control connection before its flow."""
    (flow,), (spec,) = raced.flows, raced.record.experiment.to_dict()["flows"]
    control = {**flow, "direction": "up", "goodput_bps": 1000.0, "whole_run_bps": 1000.0}
    record = raced.record.to_dict()
    record |= {"world": "emulated", "node": "emulated", "scheme": "iperf3", "phase": "given"}
    record["experiment"] |= {"name": "program", "flows": [{**spec, "direction": "up"}, spec]}
    record["summary"]["flows"] = [control, flow]
    record["program"] = {**PROGRAM, "command": command, **program}
    data = raced.samples()
    idle = data.with_columns(
        pl.lit("up").alias("direction"),
        (pl.col("goodput_bytes") // 100_000).alias("goodput_bytes"),
        (pl.col("t_s") * 0.02).alias("cwnd_limited_s"),
        pl.lit(0.0).alias("receiver_limited_s"),
        (pl.col("t_s") * 0.98).alias("sender_limited_s"),
    )
    data = data.with_columns((pl.col("flow") + 1).cast(pl.UInt64).alias("flow"))
    tables = {"samples": pl.concat([idle, data.select(idle.columns)]), "links": raced.links(), "events": raced.events()}
    folder = out / "program" / "emulated" / f"20260510T09000{number}Z" / "dumbbell.iperf3"
    return store.write_run(folder, RunRecord.check(record, "run.json"), tables)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    out, raced = (tmp_path_factory.mktemp(name) for name in ("programs", "raced"))
    path = preset_profile("dumbbell:rate=20mbit", 5.0, start_unix_ns=START_UNIX_NS, name="dumbbell")
    (down,) = race([path], ["bbr"], out=raced, duration_s=5.0).runs
    (up,) = race([path], ["cubic"], out=raced, duration_s=5.0, direction="up").runs
    keep_program(out, down, DOWN, 0)
    keep_program(out, up, UP, 1)
    (raced / "profiles").rename(out / "profiles")
    return out


def test_commands_are_not_averaged_and_idle_connections_are_excluded(programs):
    views = by_command(find_runs(programs))
    assert idle_connections(views) == 2
    down, up = summarise(views)
    assert (down.experiment, down.scheme, down.n) == ("program-down", "$ iperf3 -c server -R -C bbr", 1)
    assert (up.experiment, up.scheme, up.n) == ("program-up", "$ iperf3 -c server -C 'cubic+$x$'", 1)
    for summary, controller in ((down, "bbr"), (up, "cubic")):
        assert [flow.controller for flow in summary.flows] == [controller]
        assert summary.jain is None
    assert flow_parts(up.scheme) == [up.scheme]
    for view in views:
        samples = view.samples()
        assert samples["flow"].unique().to_list() == [0]
        assert samples["goodput_bytes"].max() > 1e6
        assert list(view.flow_numbers) == [1]


def test_the_page_names_commands_and_their_directions(programs):
    page = html.unescape(write_report(programs).read_text(encoding="utf-8"))
    assert "iperf3 -c server -R -C bbr carried" in page
    assert "iperf3 -c server -C 'cubic+$x$' carried" in page
    assert "fairness index" not in page
    assert "Download: server to terminal" in page
    assert "Upload: terminal to server" in page
    assert "<dt>Idle connections left out</dt><dd>1 (for example control connections)</dd>" in page
    table = pl.read_csv(programs / "results.csv")
    assert table.select("direction", "flow").rows() == [("down", 1), ("up", 1)]


def test_one_command_with_several_settings_is_several(programs, tmp_path):
    down, _ = find_runs(programs)
    record = down.record.to_dict()

    def variant(**changes):
        return store.Run(down.path, down.record.replace(program=down.record.program.replace(**changes)))

    other = json.loads(json.dumps(record))
    other["summary"]["flows"][1]["controller"] = "reno"
    names = [run.scheme for run in by_command([down, store.Run(down.path, RunRecord.check(other, "run.json"))])]
    assert names == [f"$ {' '.join(DOWN)} [bbr]", f"$ {' '.join(DOWN)} [reno]"]
    names = [run.scheme for run in by_command([variant(queues=["codel"]), variant(gateway_controller="bbr"), down])]
    assert names == [f"$ {' '.join(DOWN)}{how}" for how in (" (--aqm codel)", " (--gateway-cc bbr)", "")]
    names = [run.scheme for run in by_command([down, variant(server="iperf3 -s -p 9")])]
    assert names[1].endswith("[server: iperf3 -s -p 9]")


def test_a_starved_flow_is_no_idle_connection(programs):
    down, _ = find_runs(programs)
    starved = down.samples().with_columns(
        pl.when(pl.col("flow") == 0)
        .then(pl.col("sender_limited_s"))
        .otherwise("cwnd_limited_s")
        .alias("cwnd_limited_s"),
        pl.when(pl.col("flow") == 0).then(0.0).otherwise("sender_limited_s").alias("sender_limited_s"),
    )

    class Starved(store.Run):
        def samples(self):
            return starved

    (view,) = by_command([Starved(down.path, down.record)])
    assert len(view.flows) == 2


def test_the_capacity_is_that_of_the_flows_direction(programs, monkeypatch):
    class Path:
        def capacity_bps(self, direction, bin_s):
            return np.arange(6.0), np.full(5, 20e6 if direction == "down" else 5e6)

        def outages(self):
            return []

        def serving(self):
            return []

        def loss_episodes(self, _direction):
            return []

    monkeypatch.setattr("bentpipe.plots.timeline.raced_path", lambda _: Path())

    def drawn(axis):
        return [(p.get_label(), p.get_data().values[0]) for p in axis.patches if isinstance(p, StepPatch)]

    down, up = by_command(find_runs(programs))
    assert drawn(plot_timeline([down]).axes[1]) == [("capacity", 20.0)]
    assert drawn(plot_timeline([up]).axes[1]) == [("capacity", 5.0)]
    both = find_runs(programs)[0]
    assert drawn(plot_sharing([both]).axes[0]) == [("capacity (up)", 5.0), ("capacity (down)", 20.0)]


def test_a_run_without_a_command_or_with_other_flows_stays_an_ordinary_run(programs):
    down, _ = find_runs(programs)
    run = store.Run(down.path, down.record.replace(program=down.record.program.replace(command=())))
    assert by_command([run]) == [run]
    assert sentences("dumbbell", [run]) == []
    assert repeat(run, programs) == []
    run = store.Run(down.path, down.record.replace(experiment=down.record.experiment.replace(flows=())))
    assert by_command([run]) == [run]


@pytest.mark.parametrize("program", [{}, {"command": 5}, {"command": [5]}, {"queues": [{}]}, {"mtu": "x"}])
def test_a_run_with_an_unreadable_program_is_damaged(programs, tmp_path, program):
    shutil.copytree(find_runs(programs)[0].path, tmp_path / "run")
    file = tmp_path / "run" / "run.json"
    record = json.loads(file.read_text())
    file.write_text(json.dumps({**record, "program": {**record["program"], **program} if program else {}}))
    with pytest.raises(store.DamagedRunError, match="program"):
        store.read_run(tmp_path / "run")


def test_a_run_set_keeps_commands_apart(programs):
    runs = bp.RunSet.read(programs)
    rows = runs.summary().select("scheme", "direction", "n").rows()
    assert rows == [("$ iperf3 -c server -R -C bbr", "down", 1), ("$ iperf3 -c server -C 'cubic+$x$'", "up", 1)]
    axis = runs.plot.overview().axes[0]
    assert len(axis.get_yticklabels()) == 2
    assert len(runs.plot.goodput().axes) == 2


def test_a_connection_without_a_rate_has_none(programs, tmp_path):
    """It was closed before the warm-up, as one of curl."""
    down, _ = find_runs(programs)
    record = down.record.to_dict()
    for flow in record["summary"]["flows"]:
        flow |= {"goodput_bps": None, "whole_run_bps": None}
    record["seed"] = 1
    closed = store.Run(down.path, RunRecord.check(record, "run.json"))
    (summary,) = summarise(by_command([closed]))
    assert (summary.total_bps, summary.flows[0].goodput_bps, summary.jain) == (None, None, None)
    (summary,) = summarise(by_command([closed, down]))
    assert summary.total_bps.mean == pytest.approx(down.flows[1]["goodput_bps"])
    runs = bp.RunSet([bp.Run(closed)])
    assert runs.summary()["goodput_bps"].to_list() == [None]
    assert runs.plot.overview().axes
    text = html.unescape(runs.report(tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "carried" not in text
