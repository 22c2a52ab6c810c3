"""What is raced, as it is written: controllers, flows that share a path, tunables."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from bentpipe import controllers
from bentpipe.cli.main import app
from bentpipe.errors import UserError
from bentpipe.execution import kernel
from bentpipe.execution.plan import label_profiles, plan_experiment, plan_race
from bentpipe.experiments.file import parse_experiment
from bentpipe.experiments.schemes import (
    flows_of,
    known_controllers,
    parse_options,
    parse_scheme,
    parse_schemes,
    scheme_of,
)
from bentpipe.plots.style import look, scheme_name
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.store import LONGEST_NAME, find_runs, safe_name

ONE_FLOW = """
name = "one"
duration_s = 10
[[profiles]]
role = "path"
file = "p.parquet"
[[flows]]
controller = "cubic"
[flows.options]
"""


@pytest.mark.parametrize(
    ("text", "schemes"),
    [
        ("bbr, cubic+BBR,bbr,reno", ("bbr", "cubic+bbr", "reno")),
        ("cubic:hystart=pp,cubic", ("cubic:hystart=pp", "cubic")),
        (
            "bbr2:probe_rtt_win_ms=4000,loss_thresh=0.08,bbr",
            ("bbr2:loss_thresh=0.08,probe_rtt_win_ms=4000", "bbr"),
        ),
        ("bbr2:loss_thresh=8e-2+bbr2, BBR2 : loss_thresh = .08 + bbr2", ("bbr2:loss_thresh=0.08+bbr2",)),
    ],
)
def test_schemes_keep_their_order_without_repetitions(text, schemes):
    assert parse_schemes(text) == schemes


def test_a_flows_own_tunables_override_those_of_every_flow():
    everywhere = parse_options(["bbr2:loss_thresh=0.08,probe_rtt_win_ms=4000", "cubic:hystart=off"])
    assert parse_schemes("bbr2,cubic+bbr2:loss_thresh=0.02", everywhere) == (
        "bbr2:loss_thresh=0.08,probe_rtt_win_ms=4000",
        "cubic:hystart=off+bbr2:loss_thresh=0.02,probe_rtt_win_ms=4000",
    )
    assert flows_of("cubic:hystart=off+reno") == [("cubic", {"hystart": "off"}), ("reno", {})]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bbbr", "did you mean 'bbr'?"),
        ("cubic+ren", "did you mean 'reno'?"),
        ("cubic+", "one side of its +"),
        ("reno,vegas", "schemes: vegas is a controller of Linux that bentpipe does not have; expected one of bbr"),
        (",", "nothing between two commas"),
        ("reno,,bbr", "nothing between two commas"),
        ("", "no controller"),
        ("bbr2:", "is no tunable; expected tunable=value"),
        ("bbr2:loss_thresh", "is no tunable; expected tunable=value"),
        ("bbr2:loss_tresh=0.1", "did you mean `loss_thresh`?"),
        ("bbr2:loss_thresh=2", "expected a number from 0 to 0.99"),
        ("bbr2:loss_thresh=nan", "expected a number from 0 to 0.99"),
        ("bbr2:probe_rtt_win_ms=4", "option `probe_rtt_win_ms` is 4; expected a number from 100 to 16383 ms"),
        ("bbr2:full_bw_cnt=2.5", "expected a whole number from 1 to 7"),
        ("cubic:hystart=plus", "expected off, classic, pp"),
        ("bbr2:loss_thresh=0.1,loss_thresh=0.2", "loss_thresh is given twice"),
        ("reno:x=1", "it takes: none"),
    ],
)
def test_an_invalid_scheme_is_refused_in_one_line(text, message):
    with pytest.raises(UserError) as caught:
        parse_schemes(text)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["bbr4:x=1"], "tunables: no controller 'bbr4'"),
        (["bbr2"], "is no tunable"),
        (["bbr2:loss_thresh=0.1", "bbr2:beta=0.2"], "bbr2 is given twice"),
        (["bbr2:loss_thresh=9"], "expected a number from 0 to 0.99"),
        (["bbr3:beta=0.2"], "bbr3 is not raced"),
    ],
)
def test_wrong_options_are_refused_in_one_line(options, message):
    with pytest.raises(UserError) as caught:
        parse_schemes("bbr2,cubic", parse_options(options))
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@given(st.text(alphabet="bbr23cubic+:=,. loss_thresh0189e-", max_size=60))
def test_any_text_is_schemes_or_one_line(text):
    message = ""
    try:
        schemes = parse_schemes(text)
        assert parse_schemes(",".join(schemes)) == schemes
    except UserError as error:
        message = str(error)
    assert len(message.splitlines()) <= 1


@st.composite
def schemes(draw):
    """Controllers with tunables anywhere in their ranges."""
    flows = []
    for name in draw(st.lists(st.sampled_from(known_controllers()), min_size=1, max_size=3)):
        tunables = next(entry["tunables"] for entry in controllers() if entry["name"] == name)
        options = {}
        for tunable in tunables:
            if draw(st.booleans()):
                low, high = tunable["min"], tunable["max"]
                if tunable["choices"]:
                    options[tunable["name"]] = draw(st.sampled_from(tunable["choices"]))
                elif tunable["allowed"] == "0 or 1" or "whole" in tunable["allowed"]:
                    options[tunable["name"]] = float(draw(st.integers(int(low), int(high))))
                else:
                    options[tunable["name"]] = draw(st.floats(low, high))
        flows.append((name, options))
    return flows


@given(schemes())
def test_a_scheme_has_the_exact_tunables_of_its_flows(flows):
    scheme = scheme_of(flows)
    assert flows_of(scheme) == flows
    assert parse_scheme(scheme) == scheme
    assert parse_schemes(scheme) == (scheme,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("hystart = 3", "flows[0]: controller `cubic`: option `hystart` is 3; expected off, classic, pp"),
        ("hystrat = 1", "did you mean `hystart`?"),
        ("hystart = true", "options: hystart is True; expected a number or one line of text"),
        ("hystart = [1]", "expected a number or one line of text"),
    ],
)
def test_wrong_tunables_in_a_file_are_refused_with_their_place(options, message):
    with pytest.raises(UserError) as caught:
        parse_experiment(ONE_FLOW + options, "x.toml", Path())
    assert str(caught.value).startswith("x.toml")
    assert message in str(caught.value)


def test_every_tunable_is_described():
    for entry in controllers():
        for tunable in entry["tunables"]:
            assert set(tunable) == {
                "name", "unit", "default", "allowed", "min", "max", "choices", "meaning", "source"
            }  # fmt: skip
            assert tunable["meaning"]
            assert tunable["source"]
            for suffix in ("_ms", "_s"):
                if tunable["name"].endswith(suffix):
                    assert tunable["unit"] == suffix[1:]
                    break


def test_one_controller_with_two_settings_makes_two_runs_with_distinct_names(tmp_path):
    path = preset_profile("dumbbell:rate=10mbit,loss=0.01", 20.0, name="dumbbell")
    file = tmp_path / "dumbbell.parquet"
    write_profile(path, file)
    arguments = ["race", str(file), "--cc", "bbr2,bbr2:loss_thresh=0.08", "--cc-opt", "bbr2:probe_rtt_win_ms=4000"]
    done = CliRunner().invoke(app, [*arguments, "--duration", "5", "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.stderr
    runs = find_runs(tmp_path / "out")
    tuned = "bbr2:loss_thresh=0.08,probe_rtt_win_ms=4000"
    assert {run.scheme for run in runs} == {"bbr2:probe_rtt_win_ms=4000", tuned}
    run = next(run for run in runs if run.scheme == tuned)
    assert run.names == [tuned]
    options = run.record.experiment.flows[0].options
    assert options == {"loss_thresh": 0.08, "probe_rtt_win_ms": 4000.0}
    assert len({run.path for run in runs}) == 2
    assert len({run.record.content_hash for run in runs}) == 2


def test_an_experiment_file_leaves_options_to_the_file(tmp_path):
    done = CliRunner().invoke(app, ["race", "-x", "x.toml", "--cc-opt", "bbr:min_rtt_win_s=5", "-o", str(tmp_path)])
    assert done.exit_code == 2
    assert "--cc-opt cannot be given with it" in done.stderr


def test_a_kernel_refuses_tunables_in_one_line(tmp_path, monkeypatch):
    available = tmp_path / "available"
    available.write_text("reno cubic bbr\n")
    monkeypatch.setattr(kernel, "AVAILABLE", available)
    bases = label_profiles([preset_profile("dumbbell", 20.0, name="dumbbell")])
    for scheme, tunable in (("cubic:hystart=off", "hystart"), ("cubic+bbr:min_rtt_win_s=5", "min_rtt_win_s")):
        with pytest.raises(UserError) as caught:
            kernel.check(plan_race(bases, [scheme], "down", 5.0, 1, tmp_path, 0.0, "emulated"))
        assert f"with {tunable}; expected no tunables" in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('ecn = "off"', "hosts with ecn; expected none, only the simulator can set it"),
        ("gro_segments = 1", "hosts with gro_segments; expected none, only the simulator can set it"),
        ("fq = true", "hosts with fq"),
    ],
)
def test_a_kernel_refuses_settings_of_hosts_that_it_does_not_have(line, message, tmp_path, monkeypatch):
    available = tmp_path / "available"
    available.write_text("reno cubic bbr\n")
    monkeypatch.setattr(kernel, "AVAILABLE", available)
    ends = f'sender = "mine"\nreceiver = "mine"\n[hosts.mine]\n{line}\n'
    text = ONE_FLOW.replace("[flows.options]\n", ends)
    experiment = parse_experiment(text, "one.toml", tmp_path).experiment
    bases = label_profiles([preset_profile("dumbbell", 20.0, name="dumbbell")])
    with pytest.raises(UserError, match=message):
        kernel.check(plan_experiment(experiment, bases, 1, tmp_path, "emulated"))


def test_figures_distinguish_settings():
    assert look("bbr2:loss_thresh=0.08") != look("bbr2")
    assert scheme_name("cubic+bbr2:loss_thresh=0.08") == "CUBIC + BBRv2 (loss_thresh=0.08)"


def test_long_folder_names_stay_distinct():
    one, other = (safe_name(f"dumbbell.bbr2:{'x' * 200}.seed{seed}") for seed in (1, 2))
    assert one != other
    assert len(one) == len(other) == LONGEST_NAME
