"""Python controllers: raced beside built-in ones; a failure is reported with name, time and value."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.errors import ControllerError, UserError
from bentpipe.execution.job import race_jobs
from bentpipe.execution.racing import race
from bentpipe.execution.sinks.table import SweepWarning
from bentpipe.execution.sweeps.sweep import run_sweep
from bentpipe.experiments.plugins import python_plugins, simulate
from bentpipe.experiments.schemes import parse_schemes
from bentpipe.plugin import HOOKS
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.report.build import write_report
from bentpipe.runs.failed import read_failed
from bentpipe.runs.manifest import ManifestWarning
from bentpipe.runs.store import find_runs
from bentpipe.tuning import search
from bentpipe.tuning.grid import parse_grid
from bentpipe.tuning.search import tune

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "my_controller.py"
GUIDE = Path(__file__).resolve().parent.parent / "docs" / "guides" / "own-controller.md"

RENO = """
from bentpipe.plugin import Controller

class Reno(Controller):
    def on_ack(self, ack):
        if not ack.cwnd_limited:
            return
        if self.cwnd_bytes < self.ssthresh_bytes:
            self.cwnd_bytes += ack.acked_bytes
        else:
            self.cwnd_bytes += ack.mss_bytes * ack.acked_bytes / self.cwnd_bytes

class Spoiled(Reno):
    after_s = 0.5
    to = 0.0
    def on_ack(self, ack):
        super().on_ack(ack)
        if ack.now_s >= self.after_s:
            self.spoil()
    def spoil(self):
        self.cwnd_bytes = {0.0: float("nan"), 1.0: -1.0, 2.0: float("inf"), 3.0: 0.0}[self.to]

class Raises(Spoiled):
    def spoil(self):
        raise KeyError("no such beam")

class Rate(Spoiled):
    def spoil(self):
        self.pacing_bps = float("nan")

class Text(Spoiled):
    def spoil(self):
        self.cwnd_bytes = "wide"
"""


@pytest.fixture(scope="module")
def path():
    return preset_profile("dumbbell:rate=10mbit,rtt=30ms,queue=1bdp", duration_s=10)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(RENO)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_example_keeps_the_link_busy_with_less_queue_than_cubic(path, tmp_path):
    raced = race([path], [f"{EXAMPLE}:Steady", "cubic"], duration_s=8, out=tmp_path)
    steady, cubic = (run.flows[0] for run in raced.runs)
    assert steady["goodput_bps"] > 0.8 * cubic["goodput_bps"]
    assert steady["rtt_median_ms"] < cubic["rtt_median_ms"]


def test_reno_in_python_does_what_reno_in_rust_does(path, mine):
    raced = race([path], ["./mine.py:Reno", "reno"], duration_s=8, out=mine / "out")
    ours, theirs = (run.flows[0] for run in raced.runs)
    assert ours["goodput_bps"] == pytest.approx(theirs["goodput_bps"], rel=0.05)
    assert ours["rtt_median_ms"] == pytest.approx(theirs["rtt_median_ms"], rel=0.1)
    assert raced.runs[0].names == ["./mine.py:Reno"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Spoiled:to=0", r"after on_ack at 0\.5\d+ s cwnd_bytes is NaN; expected a window above 0"),
        ("Spoiled:to=1", r"after on_ack at 0\.5\d+ s cwnd_bytes is -1; expected"),
        ("Spoiled:to=2", r"after on_ack at 0\.5\d+ s cwnd_bytes is inf; expected"),
        ("Spoiled:to=3", r"after on_ack at 0\.5\d+ s cwnd_bytes is 0; expected"),
        ("Spoiled:after_s=1.5", r"after on_ack at 1\.5\d+ s cwnd_bytes is NaN"),
        ("Rate", r"after on_ack at 0\.5\d+ s pacing_bps is NaN; expected a rate above 0, or None"),
        ("Raises", r"on_ack at 0\.5\d+ s raised KeyError: 'no such beam' \(line 25\)"),
        ("Text", r"on_ack at 0\.5\d+ s raised TypeError"),
    ],
)
def test_a_failed_controller_is_reported_and_others_continue(path, mine, name, message):
    raced = race([path], [f"./mine.py:{name}", "reno"], duration_s=2, out=mine / "out")
    assert [run.scheme for run in raced.runs] == ["reno"]
    (failed,) = raced.failed
    with pytest.raises(
        ControllerError, match=rf"^\./mine\.py:{name}: 1 Run ended early; seed 0 on dumbbell.*: {message}"
    ):
        race([path], [f"./mine.py:{name}"], duration_s=2, out=mine / "o")
    assert str(failed).startswith(f"./mine.py:{name}, seed 0, on dumbbell")


ENDS = """
import ctypes, os, time
from mine import Reno

class Exits(Reno):
    code = 3
    def on_ack(self, ack):
        super().on_ack(ack)
        if ack.now_s > 0.5:
            os._exit(int(self.code))

class Crashes(Reno):
    def on_ack(self, ack):
        ctypes.string_at(0)

class Signals(Reno):
    def on_ack(self, ack):
        os.kill(os.getpid(), 40)

class Closes(Reno):
    def on_ack(self, ack):
        os.closerange(3, 200)

class Forks(Reno):
    def on_ack(self, ack):
        child = os.fork()
        if child == 0:
            time.sleep(60)
        open("child", "w").write(str(child))
        os._exit(4)

class Sleeps(Reno):
    def on_ack(self, ack):
        open("sleeps", "w").close()
        while True:
            pass
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Exits", "ended its process with exit code 3"),
        ("Exits:code=0", "ended its process with exit code 0"),
        ("Crashes", r"ended its process by signal 11 \(SIGSEGV\)"),
        ("Signals", r"ended its process by signal 40; expected"),
        ("Closes", "ended its process with exit code 1"),
    ],
)
def test_a_controller_that_ends_its_process_is_reported_and_other_runs_are_stored(path, mine, name, message):
    (mine / "ends.py").write_text(ENDS)
    write_profile(path, mine / "p.parquet")
    command = [sys.executable, "-m", "bentpipe", "race", "p.parquet", "--duration", "2", "-o", "out"]
    cc = f"reno,./ends.py:{name},./mine.py:Reno"
    ended = subprocess.run([*command, "--cc", cc], capture_output=True, text=True, check=False, cwd=mine)
    errors = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert ended.returncode == 2
    assert len(errors) == 1
    assert re.search(rf"\./ends\.py:{name}: 1 Run ended early; seed 0 on .*: {message}", errors[0]), errors
    assert sorted(run.scheme for run in find_runs(mine / "out")) == ["./mine.py:Reno", "reno"]
    assert "Traceback" not in ended.stderr


def test_a_controller_that_forks_and_ends_its_process_is_reported(path, mine):
    """The other process keeps the channel open."""
    (mine / "ends.py").write_text(RENO + ENDS.replace("from mine import Reno", ""))
    try:
        raced = race([path], ["./ends.py:Forks", "reno"], duration_s=1, out=mine / "out")
    finally:
        os.kill(int((mine / "child").read_text()), signal.SIGKILL)
    assert [run.scheme for run in raced.runs] == ["reno"]
    assert raced.failed[0].why.startswith("controller ./ends.py:Forks: ended its process with exit code 4; expected")


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("os._exit(0)", "with exit code 0"),
        ("os._exit(3)", "with exit code 3"),
        ("sys.exit()", "with exit code 0"),
        ("ctypes.string_at(0)", r"by signal 11 \(SIGSEGV\)"),
    ],
)
def test_a_controller_whose_file_ends_the_process_is_one_line(path, mine, line, how):
    (mine / "ends.py").write_text(f"import ctypes, os, sys\n{line}\n{RENO}")
    write_profile(path, mine / "p.parquet")
    command = [sys.executable, "-m", "bentpipe", "race", "p.parquet", "--cc", "./ends.py:Reno", "-o", "out"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=mine)
    assert re.fullmatch(
        rf"error: --cc: \./ends\.py:Reno cannot be loaded: it ended its process {how}; expected a class\n", ended.stderr
    ), ended
    assert ended.returncode == 2


def test_ctrl_c_ends_a_controller_that_never_returns(path, mine):
    (mine / "ends.py").write_text(ENDS)
    write_profile(path, mine / "p.parquet")
    command = [sys.executable, "-m", "bentpipe", "race", "p.parquet", "--duration", "2", "-o", "out"]
    with subprocess.Popen(
        [*command, "--cc", "./ends.py:Sleeps"], stderr=subprocess.PIPE, text=True, cwd=mine, process_group=0
    ) as process:
        while not (mine / "sleeps").exists():
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, message = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "0 of 1 Runs are stored" in message


def test_failed_controllers_are_listed_in_race_order_and_in_the_report(path, mine):
    write_profile(path, mine / "p.parquet")
    cc = "./mine.py:Text,./mine.py:Raises,reno,./mine.py:Spoiled:to=1"
    command = ["race", "p.parquet", "--cc", cc, "--duration", "2", "--seeds", "2", "-o", "out"]
    for _ in range(2):  # the second time reno is there already
        result = CliRunner().invoke(app, command)
        assert result.exit_code == ControllerError.exit_code
        lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        assert [line.split(": ")[1] for line in lines] == [
            "./mine.py:Text",
            "./mine.py:Raises",
            "./mine.py:Spoiled:to=1",
        ]
        assert all("2 Runs ended early; seed 0 on dumbbell" in line for line in lines)
    assert sorted(run.seed for run in read_failed(mine / "out")) == [0, 0, 0, 1, 1, 1]
    page = write_report(mine / "out").read_text()
    assert page.count("Failed: ") == 3
    assert "raised KeyError" in page
    assert "Unfinished" not in page
    # A Run that failed before and succeeds now is not reported.
    (mine / "mine.py").write_text((mine / "mine.py").read_text().replace('raise KeyError("no such beam")', "pass"))
    CliRunner().invoke(app, [*command, "--fresh"])
    assert {run.scheme for run in read_failed(mine / "out")} == {"./mine.py:Text", "./mine.py:Spoiled:to=1"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '{"failed": []}',
        '{"format": 1, "failed": [{}]}',
        '{"format": 1, "failed": [{"seed": "0"}]}',
        '{"format": 5, "failed": []}',
        '{"format": "1", "failed": []}',
        '{"format": 1, "failed": null}',
        '{"format": 1, "failed": ""}',
        '{"format": 0, "failed": []}',
    ],
)
def test_a_damaged_list_of_failed_runs_is_a_warning(tmp_path, text):
    (tmp_path / "failed.json").write_text(text)
    with pytest.warns(ManifestWarning, match=r"failed\.json: cannot be read"):
        assert read_failed(tmp_path) == []


def test_a_sweep_runs_python_controllers_in_processes_and_survives_a_failed_one(path, mine):
    schemes = [f"{mine}/mine.py:Reno", f"{mine}/mine.py:Raises", "reno"]
    jobs = race_jobs([path], schemes, duration_s=2)
    with pytest.warns(SweepWarning, match=r"Raises, seed 0, on dumbbell.*raised KeyError"):
        swept = run_sweep(jobs, out=mine / "sweep")
    raced = race([path], [schemes[0], "reno"], duration_s=2, out=mine / "race")
    assert swept.runs[1] is None
    assert [run.record.content_hash for run in swept.runs if run] == [run.record.content_hash for run in raced.runs]


def test_a_sweep_names_a_controller_that_ends_its_process_and_continues(path, mine):
    (mine / "ends.py").write_text(RENO + ENDS.replace("from mine import Reno", ""))
    jobs = race_jobs([path], ["./ends.py:Exits", "reno"], duration_s=2)
    with pytest.warns(SweepWarning, match=r"controller \./ends\.py:Exits: ended its process with exit code 3"):
        swept = run_sweep(jobs, out=mine / "sweep")
    assert [run is None for run in swept.runs] == [True, False]
    assert swept.failed[0].scheme == "./ends.py:Exits"


def test_an_edited_controller_is_another_one(path, mine):
    (before,) = race_jobs([path], ["./mine.py:Reno"], duration_s=1)
    key = before.key
    (mine / "mine.py").write_text(RENO + "\n# edited\n")
    (after,) = race_jobs([path], ["./mine.py:Reno"], duration_s=1)
    assert after.key != key
    assert [plugin.name for plugin in python_plugins(after.work.experiment)] == ["./mine.py:Reno"]


def test_a_result_of_another_file_is_refused(path, mine):
    """As a worker's own copy is, or one that is edited while the sweep runs."""
    jobs = race_jobs([path], ["./mine.py:Reno"], duration_s=1)
    keys = [job.key for job in jobs]
    (mine / "mine.py").write_text(RENO + "\n# edited\n")
    with pytest.raises(UserError, match=r"mine\.py:Reno changed after the start of the sweep"):
        run_sweep(jobs, out=mine / "sweep")
    assert keys == [job.key for job in jobs]
    assert len((mine / "sweep" / "results.jsonl").read_text().splitlines()) == 1


def test_each_point_of_a_grid_is_a_separate_scheme(mine):
    for controller, points in (("./mine.py:Spoiled", 4), ("./mine.py:Spoiled:after_s=1", 2)):
        axes = ["to=0,1", "after_s=2,3"][: points.bit_length() - 1]
        grid = parse_grid(controller, axes)
        schemes = [grid.scheme(point) for point in grid.points()]
        assert len(set(schemes)) == points == grid.size
        assert all("to=" in scheme and "after_s=" in scheme for scheme in schemes)


def test_the_cost_of_a_grid_includes_its_processes(path, mine, monkeypatch):
    (mine / "mine.py").write_text(RENO.replace("class Reno(Controller):", "class Reno(Controller):\n    gain = 1.0"))
    monkeypatch.setattr(search, "UNCONFIRMED_S", 0.02)
    grid = parse_grid("./mine.py:Reno", ["gain=1,2"])
    with pytest.raises(UserError, match=r"2 points on 1 paths are 2 Runs"):
        tune([path], grid, out=mine / "tuned", duration_s=2)


@pytest.mark.parametrize(
    ("cc", "message"),
    [
        ("./none.py:Reno", r"\./none\.py: no such file"),
        ("./mine.py:Remo", r"mine\.py has no class Remo.*Reno"),
        (
            "./mine.py:Spoiled:afterr_s=1",
            r"schemes: \./mine\.py:Spoiled: no tunable 'afterr_s'; did you mean 'after_s'.*expected .*after_s",
        ),
        ("./mine.py:Spoiled:after_s=soon", r"after_s is 'soon'; expected a number"),
        ("./broken.py:Reno", r"broken\.py cannot be loaded: ZeroDivisionError"),
        (
            "./hooks.py:Listens",
            r"hooks\.py:Listens has a method on_loss, which .* never calls; did you mean 'on_lost'\?; expected",
        ),
        ("./broken.py", r"no controller '\./broken\.py'"),
        ("./mine.py:Reno-old", r"reno-old"),
    ],
)
def test_an_unloadable_controller_is_one_line(mine, cc, message):
    (mine / "broken.py").write_text("1 / 0\n")
    (mine / "hooks.py").write_text(RENO + "\nclass Listens(Reno):\n    def on_loss(self, now_s): ...\n")
    with pytest.raises(UserError, match=message):
        parse_schemes(cc)


@pytest.mark.parametrize("schemes", ["[Reno]", "['cubic']"])
def test_a_script_that_starts_runs_while_it_is_loaded_is_refused(mine, schemes):
    """Without that, each Run would load the script for its class, which would start Runs again, without end."""
    body = f"""
import bentpipe as bp
path = bp.Profile.preset("dumbbell:rate=5mbit", duration=2)
runs = bp.Experiment(path, schemes={schemes}, duration=1).simulate()
print(len(runs), "Runs")
"""
    (mine / "script.py").write_text(RENO + body)
    command = [sys.executable, "-c", "import bentpipe as bp\nfrom bentpipe.experiments.schemes import parse_schemes\n"]
    command[-1] += "parse_schemes('./script.py:Reno')"
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    problem = (
        'it starts Runs while it is loaded for its class; expected what it runs below `if __name__ == "__main__":`'
    )
    assert problem in done.stderr
    (mine / "script.py").write_text(RENO + 'if __name__ == "__main__":' + body.replace("\n", "\n    "))
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "1 Runs\n", done.stderr


def test_names_with_tunables_are_parsed_unchanged(mine):
    written = "./mine.py:Spoiled:after_s=2,to=1,cubic:hystart=pp,reno+./mine.py:Reno"
    assert parse_schemes(written) == (
        "./mine.py:Spoiled:after_s=2,to=1",
        "cubic:hystart=pp",
        "reno+./mine.py:Reno",
    )


def test_an_unknown_hook_ends_the_command_with_exit_code_2_and_one_line(path, mine):
    write_profile(path, mine / "p.parquet")
    (mine / "hooks.py").write_text(RENO + "\nclass Listens(Reno):\n    def on_loss(self, now_s): ...\n")
    message = CliRunner().invoke(app, ["race", "p.parquet", "--cc", "./hooks.py:Listens", "-o", "out"])
    assert message.exit_code == 2
    assert message.stderr.count("\n") == 1
    assert not (mine / "out").exists()


def test_hooks_are_what_the_simulator_calls(path, mine):
    hooks = "".join(f"    def {name}(self, *_): self.seen.add({name!r})\n" for name in HOOKS)
    (mine / "all.py").write_text(
        "from bentpipe.plugin import Controller\n\nSEEN = set()\n\nclass All(Controller):\n    seen = SEEN\n"
        f"    cwnd_bytes = 400_000\n    def __init__(self, *_): self.ssthresh_bytes = 400_000\n{hooks}"
    )
    experiment = race_jobs([path], ["./all.py:All"], duration_s=3)[0].work.experiment
    simulate(experiment, [path])
    (plugin,) = python_plugins(experiment)
    assert plugin.kind.seen == set(HOOKS)


def test_the_controllers_of_the_guide_run(path, mine):
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (mine / "guide.py").write_text("\n".join(blocks))
    schemes = ["./guide.py:Mine", "./guide.py:Gentle", "./guide.py:Gentle:beta=0.5"]
    raced = race([path], schemes, duration_s=5, out=mine / "out")
    assert [run.scheme for run in raced.runs] == schemes
    assert len({run.record.content_hash for run in raced.runs}) == 3
    assert all(run.flows[0]["goodput_bps"] > 5e6 for run in raced.runs)
