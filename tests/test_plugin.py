"""Controllers in Python: raced beside built-in ones, and told of by name, time and value where they fail."""

from pathlib import Path

import pytest

from bentpipe import preset_profile
from bentpipe.errors import ControllerError, UserError
from bentpipe.runs import parse_entrants, race
from bentpipe.runs.guests import guests_of
from bentpipe.sweeps import SweepWarning, race_jobs, run_sweep
from bentpipe.tuning import parse_grid, search, tune

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "my_controller.py"

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
    ("what", "said"),
    [
        ("Spoiled:to=0", r"Spoiled: after on_ack at 0\.5\d+ s cwnd_bytes is NaN; wanted a window above 0"),
        ("Spoiled:to=1", r"Spoiled: after on_ack at 0\.5\d+ s cwnd_bytes is -1; wanted"),
        ("Spoiled:to=2", r"Spoiled: after on_ack at 0\.5\d+ s cwnd_bytes is inf; wanted"),
        ("Spoiled:to=3", r"Spoiled: after on_ack at 0\.5\d+ s cwnd_bytes is 0; wanted"),
        ("Spoiled:after_s=1.5", r"after on_ack at 1\.5\d+ s cwnd_bytes is NaN"),
        ("Rate", r"Rate: after on_ack at 0\.5\d+ s pacing_bps is NaN; wanted a rate above 0, or None"),
        ("Raises", r"Raises: on_ack at 0\.5\d+ s raised KeyError: 'no such beam' \(line 25\)"),
        ("Text", r"Text: on_ack at 0\.5\d+ s raised TypeError"),
    ],
)
def test_one_that_fails_is_named_with_the_time_and_the_value_and_others_go_on(path, mine, what, said):
    raced = race([path], [f"./mine.py:{what}", "reno"], duration_s=2, out=mine / "out")
    assert [run.entrant for run in raced.runs] == ["reno"]
    (failed,) = raced.failed
    with pytest.raises(ControllerError, match=said):
        race([path], [f"./mine.py:{what}"], duration_s=2, out=mine / "o")
    assert failed.startswith("./mine.py:")


def test_a_sweep_runs_them_in_processes_and_goes_on_without_one_that_fails(path, mine):
    entrants = [f"{mine}/mine.py:Reno", f"{mine}/mine.py:Raises", "reno"]
    jobs = race_jobs([path], entrants, duration_s=2)
    with pytest.warns(SweepWarning, match=r"Raises, seed 0, on dumbbell.*raised KeyError"):
        swept = run_sweep(jobs, out=mine / "sweep")
    raced = race([path], [entrants[0], "reno"], duration_s=2, out=mine / "race")
    assert swept.runs[1] is None
    assert [run.record["content_hash"] for run in swept.runs if run] == [
        run.record["content_hash"] for run in raced.runs
    ]


def test_one_that_was_edited_is_another(path, mine):
    (before,) = race_jobs([path], ["./mine.py:Reno"], duration_s=1)
    key = before.key
    (mine / "mine.py").write_text(RENO + "\n# edited\n")
    (after,) = race_jobs([path], ["./mine.py:Reno"], duration_s=1)
    assert after.key != key
    assert list(guests_of(after.work.experiment)) == ["./mine.py:Reno"]


def test_a_result_of_another_file_than_was_asked_for_is_refused(path, mine):
    """As a worker's own copy is, or one that is edited while the sweep runs."""
    jobs = race_jobs([path], ["./mine.py:Reno"], duration_s=1)
    keys = [job.key for job in jobs]
    (mine / "mine.py").write_text(RENO + "\n# edited\n")
    with pytest.raises(UserError, match=r"mine\.py:Reno is another file where this ran"):
        run_sweep(jobs, out=mine / "sweep")
    assert keys == [job.key for job in jobs]
    assert len((mine / "sweep" / "results.jsonl").read_text().splitlines()) == 1


def test_what_a_grid_costs_counts_the_processes_it_is_run_in(path, mine, monkeypatch):
    (mine / "mine.py").write_text(RENO.replace("class Reno(Controller):", "class Reno(Controller):\n    gain = 1.0"))
    monkeypatch.setattr(search, "UNASKED_S", 0.2)
    grid = parse_grid("./mine.py:Reno", ["gain=1,2"])
    with pytest.raises(UserError, match=r"2 points on 1 paths are 2 Runs"):
        tune([path], grid, out=mine / "tuned", duration_s=2)


@pytest.mark.parametrize(
    ("cc", "said"),
    [
        ("./none.py:Reno", r"\./none\.py: no such file"),
        ("./mine.py:Remo", r"mine\.py has no class Remo.*Reno"),
        ("./mine.py:Spoiled:afterr_s=1", r"has no option afterr_s.*after_s"),
        ("./mine.py:Spoiled:after_s=soon", r"after_s is 'soon'; it must be a number"),
        ("./broken.py:Reno", r"broken\.py cannot be loaded: ZeroDivisionError"),
        ("./broken.py", r"no controller '\./broken\.py'"),
    ],
)
def test_what_cannot_be_loaded_is_one_line(mine, cc, said):
    (mine / "broken.py").write_text("1 / 0\n")
    with pytest.raises(UserError, match=said):
        parse_entrants(cc)


def test_names_with_tunables_are_read_as_they_are_written(mine):
    written = "./mine.py:Spoiled:after_s=2,to=1,cubic:hystart=pp,reno+./mine.py:Reno"
    assert parse_entrants(written) == (
        "./mine.py:Spoiled:after_s=2,to=1",
        "cubic:hystart=pp",
        "reno+./mine.py:Reno",
    )
