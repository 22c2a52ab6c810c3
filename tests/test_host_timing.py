"""The timing model of simulated hosts: in Experiments, in their files, on the command line and in Runs."""

import json

import pytest
from object_profiles import dumbbell
from typer.testing import CliRunner

import bentpipe as bp
from bentpipe.cli.main import app
from bentpipe.execution import kernel
from bentpipe.execution.plan import label_profiles, plan_race
from bentpipe.execution.racing import race
from bentpipe.experiments.file import parse_experiment
from bentpipe.profiles.parquet import write_profile

FILE = """
name = "e"
duration_s = 4
{}
[[profiles]]
role = "path"
file = "P.parquet"
[[flows]]
controller = "cubic"
"""


def timing_and_hash(runs):
    return runs[0].record.experiment.host_timing, runs[0].record.content_hash


def test_a_race_uses_the_measured_machine_by_default_and_says_which_model_it_used():
    default = timing_and_hash(race([dumbbell().native], ["cubic"], out=None).runs)
    linux = timing_and_hash(race([dumbbell().native], ["cubic"], out=None, host_timing="linux-vm").runs)
    ideal = timing_and_hash(race([dumbbell().native], ["cubic"], out=None, host_timing="ideal").runs)
    assert default == linux
    assert ideal[0] == "ideal"
    assert ideal[1] != linux[1]


def test_flows_and_schemes_of_an_experiment_have_its_timing_model():
    by_scheme = bp.Experiment(dumbbell(), "cubic", host_timing="ideal").simulate()
    by_flow = bp.Experiment(dumbbell(), flows=[bp.Flow("cubic")], host_timing="ideal").simulate()
    assert by_scheme[0].record.experiment.host_timing == "ideal"
    assert by_flow[0].record.experiment.host_timing == "ideal"


def test_an_experiment_file_names_the_timing_model(tmp_path):
    timing = [
        parse_experiment(FILE.format(line), "e.toml", tmp_path).experiment.host_timing
        for line in ("", 'host_timing = "ideal"')
    ]
    assert timing == ["linux-vm", "ideal"]
    with pytest.raises(bp.errors.UserError, match=r"e\.toml: host_timing"):
        parse_experiment(FILE.format('host_timing = "fast"'), "e.toml", tmp_path)


def test_the_command_line_selects_the_timing_model_and_stores_it(tmp_path):
    write_profile(dumbbell().native, tmp_path / "P.parquet")
    command = [
        "race",
        str(tmp_path / "P.parquet"),
        "--cc",
        "cubic",
        "--host-timing",
        "ideal",
        "-o",
        str(tmp_path / "o"),
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    (stored,) = (tmp_path / "o").rglob("run.json")
    assert json.loads(stored.read_text())["experiment"]["host_timing"] == "ideal"
    assert "race-down-ideal-hosts" in str(stored)


def test_an_unknown_timing_model_is_refused():
    with pytest.raises(bp.errors.UserError, match=r"host_timing: 'fast'; expected linux-vm or ideal"):
        bp.Experiment(dumbbell(), "cubic", host_timing="fast")
    with pytest.raises(bp.errors.UserError, match=r"host_timing.*expected linux-vm or ideal"):
        race([dumbbell().native], ["cubic"], out=None, host_timing="fast")


def test_a_kernel_refuses_a_timing_model(tmp_path, monkeypatch):
    (tmp_path / "available").write_text("cubic\n")
    monkeypatch.setattr(kernel, "AVAILABLE", tmp_path / "available")
    bases = label_profiles([dumbbell().native])
    work = plan_race(bases, ["cubic"], "down", None, 1, tmp_path, 0.0, "emulated", host_timing="ideal")
    with pytest.raises(bp.errors.UserError, match="on_kernel: host timing ideal; expected none"):
        kernel.check(work)
