"""The names of `bentpipe`: every command has one, and a user's program is typed against them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import bentpipe
from bentpipe.cli.main import app

PACKAGE = Path(bentpipe.__file__).parent

COMMANDS = {
    "analyze handovers": "Measurement.handovers",
    "analyze latency": "Measurement.latency",
    "analyze loss": "Measurement.loss",
    "analyze orientation": "Measurement.orientation",
    "analyze path": "Measurement.path",
    "analyze spikes": "Measurement.spikes",
    "analyze throughput": "Measurement.throughput",
    "aware get": "AwarenessClient.get",
    "aware serve": "serve_awareness",
    "aware watch": "AwarenessClient.events",
    "call": "video_call",
    "cc": "controllers",
    "clock": "keep_clock",
    "compare": "Comparison",
    "constellations": "constellations",
    "demo": "run_demo",
    "dish record": "Dish.record",
    "dish simulate": "Dish.simulate",
    "dish watch": "Dish.watch",
    "exp cancel": "TestbedClient.cancel",
    "exp dry-run": "TestbedClient.dry_run",
    "exp extend": "TestbedClient.extend",
    "exp logs": "TestbedClient.run",
    "exp ls": "TestbedClient.experiments",
    "exp profile": "TestbedClient.put_profile",
    "exp results": "TestbedClient.results",
    "exp submit": "TestbedClient.submit",
    "exp validate": "TestbedClient.validate",
    "exp watch": "TestbedClient.watch",
    "fairness": "Experiment.fairness",
    "kernel check": "check_kernel",
    "kernel list": "loaded_controllers",
    "kernel load": "load_controller",
    "kernel set": "set_controller_options",
    "kernel status": "controller_sockets",
    "kernel unload": "unload_controller",
    "loss": "losses",
    "policies": "policies",
    "predict drift": "Predictor.drift",
    "predict forecast": "Predictor.forecast",
    "predict handovers": "handover_model",
    "predict list": "predictors",
    "predict score": "score_predictors",
    "predict train": "Predictor.train",
    "presets": "presets",
    "probe finish": "finish_probe",
    "probe owd": "probe",
    "probe ping": "probe",
    "probe reflect": "Reflector.serve",
    "probe tcp": "probe",
    "probe trace": "probe",
    "network make": "Network.make",
    "network map": "Network.write_map",
    "network path": "Profile.write",
    "network show": "Network.summary",
    "node drain": "TestbedClient.change_node",
    "node ls": "TestbedClient.nodes",
    "node pause": "TestbedClient.change_node",
    "node profile": "TestbedClient.node_profile",
    "node resume": "TestbedClient.change_node",
    "node scavenger": "TestbedClient.change_node",
    "node show": "TestbedClient.node",
    "node tag": "TestbedClient.change_node",
    "node join": "join_testbed",
    "node run": "serve_node",
    "node unit": "unit_text",
    "profile convert": "Profile.write",
    "profile from": "Profile.measured",
    "profile make": "Profile.make",
    "profile plot": "Profile.plot",
    "profile show": "Profile.summary",
    "race": "Experiment.simulate",
    "read": "read",
    "recovery": "recovery_schemes",
    "replay": "replay",
    "report": "RunSet.report",
    "route": "route",
    "run": "Profile.run",
    "serving": "serving",
    "shell": "Profile.run",
    "sites": "sites",
    "sky": "sky",
    "study list": "list_studies",
    "study run": "run_study",
    "trigger signals": "trigger_signals",
    "trigger test": "dry_run_trigger",
    "testbed laptop": "serve_laptop_testbed",
    "testbed backup": "back_up_testbed",
    "testbed restore": "restore_testbed",
    "testbed token": "TestbedClient.make_token",
    "testbed up": "serve_testbed",
    "tune": "Experiment.tune",
    "validate": "validate",
    "video race": "race_videos",
    "web load": "load_page",
    "web show": "page_objects",
}
"""Command → the public name that does the same."""


def commands(group, prefix=""):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"


def test_every_command_has_a_public_name():
    assert sorted(commands(typer.main.get_command(app))) == sorted(COMMANDS)


@pytest.mark.parametrize("name", sorted(set(COMMANDS.values())))
def test_a_public_name_exists_and_says_what_it_does(name):
    top, _, method = name.partition(".")
    assert top in bentpipe.__all__
    result = getattr(bentpipe, top)
    result = getattr(result, method) if method else result
    assert callable(result)
    assert result.__doc__


def test_all_names_are_there_and_nothing_else_is_public():
    assert sorted(bentpipe.__all__) == dir(bentpipe)
    for name in bentpipe.__all__:
        assert getattr(bentpipe, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'race'"):
        _ = bentpipe.race


PROGRAM = """
import datetime
from pathlib import Path

import bentpipe as bp
import polars as pl
from matplotlib.figure import Figure

path = bp.Profile.make(site="louvain", to="london", start="2026-05-10T09:00Z", duration=300)
other = bp.Profile.make(site=(50.7, 4.6), to="london", start=datetime.datetime(2026, 5, 10), duration="300s")
runs = bp.Experiment(path, schemes=["cubic", "bbr", "cubic+bbr"], queue="fq_codel", seeds=5).simulate()
summary: pl.DataFrame = runs.summary()
samples: pl.DataFrame = runs["bbr", 0].samples()
one_scheme: bp.RunSet = runs["bbr"]
figure: Figure = runs.plot.timeline(ax=None)
page: Path = runs.report("out/report.html")
found: bool = bp.read("ping.txt").handovers().found
step: float | None = bp.read("ping.txt").handovers().step_ms
ratio: pl.DataFrame = bp.Comparison(runs, one_scheme).to_polars()
network = bp.Network({"home": path, "office": other})
bp.Experiment(network, flows=[bp.Flow("cubic", path="home", start=datetime.timedelta(seconds=1))]).simulate()
names: list[str] = [run.scheme for run in runs]
try:
    bp.Profile.read("P.parquet")
except bp.UserError as error:
    print(error)
"""

WRONG = """
import bentpipe as bp

path = bp.Profile.make(site="louvain")
bp.Experiment(path, seeds="five")
bp.read("ping.txt").handovers().find
"""


@pytest.fixture(scope="module")
def mypys_errors(tmp_path_factory):
    """Run mypy on two programs of a user; return the lines with errors by file.

    The package lies in a folder of installed packages: mypy reads such a package only if it has `py.typed`.
    """
    folder = tmp_path_factory.mktemp("user")
    (folder / "site").mkdir()
    (folder / "site" / "bentpipe").symlink_to(PACKAGE)
    (folder / "right.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "wrong.py").write_text(WRONG, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder / "site")}
    environment.pop("MYPYPATH", None)
    cache = PACKAGE.parent.parent / ".mypy_cache" / "users"  # the types of libraries take most of the time
    done = subprocess.run(
        [sys.executable, "-P", "-m", "mypy", "--strict", f"--cache-dir={cache}", "right.py", "wrong.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "py.typed" not in done.stdout
    return {
        file: [int(line) for line in re.findall(rf"^{file}\.py:(\d+): error:", done.stdout, re.MULTILINE)]
        for file in ("right", "wrong")
    }


def test_a_program_with_the_objects_passes_strict_mypy_against_the_installed_package(mypys_errors):
    assert mypys_errors["right"] == []


def test_mypy_finds_a_users_mistakes(mypys_errors):
    assert mypys_errors["wrong"] == [4, 5, 6]
