"""Applications over real sockets: the same code as in the simulator, on this kernel's TCP."""

import polars as pl
import pytest
from disturbance import first_valid
from emulation import can_emulate

import bentpipe as bp
from bentpipe.errors import ControllerError
from bentpipe.execution import racing

pytestmark = [
    pytest.mark.skipif(not can_emulate(), reason="no user namespaces here"),
    pytest.mark.filterwarnings("ignore::bentpipe.execution.sinks.folder.KernelWarning"),
]

POLLS = '''
from bentpipe.plugin import App


class Polls(App):
    """Asks over two connections by turns, each 50 ms after the last answer; after six answers it is done."""

    end = "receiver"

    def on_started(self, now_s):
        self.streams = [self.open(), self.open()]
        self.asked = 0
        self.set_timer(now_s + 0.05)

    def on_timer(self, now_s, timer):
        stream = self.streams[self.asked % 2]
        self.write(stream, 100, answer_bytes=20000, number=self.asked)
        self.record(self.asked, kind="poll", start_s=now_s, size_bytes=20000)
        self.asked += 1

    def on_message(self, now_s, stream, message):
        self.record(message.number, first_byte_s=message.first_byte_s, completed_s=now_s)
        if self.asked == 6:
            for each in self.streams:
                self.close(each)
            self.finish()
        else:
            self.set_timer(now_s + 0.05)


class Fails(App):
    def on_started(self, now_s):
        self.write(self.open(), 1000)

    def on_delivered(self, now_s, stream):
        raise RuntimeError("enough")


class Spins(App):
    def on_started(self, now_s):
        self.set_timer(0.0)

    def on_timer(self, now_s, timer):
        self.set_timer(0.0)


class Strays(App):
    def on_started(self, now_s):
        self.close(7)


class Chooses(App):
    def on_started(self, now_s):
        self.open("nosuch")
'''


SOMETIMES = """
from pathlib import Path

from bentpipe.plugin import App


class Sometimes(App):
    def on_started(self, now_s):
        with Path(__file__).with_suffix(".log").open("a") as log:
            if log.write("x") and log.tell() == 2:
                raise RuntimeError("now")
        self.write(self.open(), 1000)
        self.finish()
"""


@pytest.fixture(scope="module")
def path():
    return bp.Profile.preset("dumbbell:rate=20mbit,rtt=40ms,queue=1bdp", duration=20, name="dumbbell")


def both(path, *flows, duration=4):
    """Simulate an Experiment, and emulate it until a Run is valid."""
    experiment = bp.Experiment(path, flows=flows, duration=duration)

    def emulated():
        run = experiment.emulate(careful=False)[0]
        return run, run.why_invalid

    valid = first_valid(emulated, attempts=3)
    if isinstance(valid, str):
        pytest.skip(valid)
    return experiment.simulate()[0], valid


def flow_of(run):
    """The summary of the first flow."""
    return run.record.summary["flows"][0]


def test_requests_take_as_long_as_in_the_simulator(path):
    simulated, real = both(path, bp.Flow("cubic", app="request:200bytes/100kb,n=20"))
    expected, got = flow_of(simulated), flow_of(real)
    assert got["app"]["items"] == got["app"]["completed"] == 20
    assert got["app"]["median_s"] == pytest.approx(expected["app"]["median_s"], rel=0.1)
    assert got["app"]["first_byte_median_s"] == pytest.approx(expected["app"]["first_byte_median_s"], rel=0.1)
    assert got["completed_s"] == pytest.approx(expected["completed_s"], rel=0.15)
    assert real.applications().schema == simulated.applications().schema
    # The 20 answers, with their headers; the FIN counts as one byte more.
    assert real.samples()["goodput_bytes"].max() in (2_000_000, 2_000_001)


def test_each_transfer_has_its_connection_and_all_are_one_flow(path):
    simulated, real = both(path, bp.Flow("reno", app="transfers:50kb"), bp.Flow("cubic", direction="up"))
    items = [run.applications().filter(pl.col("completed_s").is_finite()) for run in (simulated, real)]
    assert items[1].height == pytest.approx(items[0].height, rel=0.2)
    assert items[1]["id"].to_list() == list(range(items[1].height)), "one after the other"
    samples = real.samples()
    assert sorted(samples["flow"].unique()) == [0, 1]
    assert sorted(set(real.links()["flow"]) - {-1}) == [0, 1]
    first = samples.filter(pl.col("flow") == 0)
    assert first["goodput_bytes"].is_sorted()
    assert first["goodput_bytes"].max() == pytest.approx(50_000 * items[1].height, rel=0.1)
    assert flow_of(real)["controller"] == "reno"


def test_samples_are_of_the_flows_direction_also_where_more_goes_the_other_way(path):
    simulated, real = both(path, bp.Flow("cubic", app="request:100kb/200bytes,n=10"))
    for run in (simulated, real):
        assert flow_of(run)["direction"] == "down"
        assert run.samples()["goodput_bytes"].max() in (2000, 2001)  # the answers alone; a FIN counts as a byte
    real_s, simulated_s = (16_000 / flow_of(run)["goodput_bps"] for run in (real, simulated))
    # A request that loses its last segment waits for a time-out of 200 ms, perhaps in one world alone.
    assert real_s == pytest.approx(simulated_s, abs=0.2 * simulated_s + 0.2)


def test_a_flow_may_stop_while_its_connections_open(path):
    """Each transfer lasts a few RTTs, so that of these flows some stop in the middle of a handshake."""
    flows = [bp.Flow("cubic", app="transfers:5kb", stop=1 + i / 97) for i in range(8)]
    run = bp.Experiment(path, flows=flows, duration=2).emulate(careful=False)[0]
    assert all(flow["app"]["completed"] > 3 for flow in run.record.summary["flows"])


def test_random_starts_are_the_simulators(path):
    simulated, real = both(path, bp.Flow("cubic", app="transfers:20kb,poisson=200ms"))
    starts = [run.applications().sort("id")["start_s"] for run in (simulated, real)]
    assert starts[0].len() == starts[1].len() > 5
    assert (starts[0] - starts[1]).abs().max() < 0.02


def test_an_application_in_python_runs_over_real_sockets(path, tmp_path):
    (tmp_path / "mine.py").write_text(POLLS)
    simulated, real = both(path, bp.Flow("cubic", app=f"{tmp_path}/mine.py:Polls"))
    for run in (simulated, real):
        assert flow_of(run)["app"]["completed"] == 6
    assert flow_of(real)["completed_s"] == pytest.approx(flow_of(simulated)["completed_s"], rel=0.15)
    assert flow_of(real)["app"]["median_s"] == pytest.approx(flow_of(simulated)["app"]["median_s"], rel=0.15)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("Spins", r"app: .*mine\.py:Spins: more than 10000 of its timers are due at \S+ s; expected a timer that"),
        ("Strays", r"app: .*mine\.py:Strays: it uses stream 7, which does not exist, at 0\.0\d+ s; expected a stream"),
        ("Chooses", r"with nosuch: this kernel does not have it; .* try `modprobe tcp_nosuch` as root, or"),
    ],
)
def test_an_application_that_asks_for_too_much_ends_its_run(path, tmp_path, kind, problem):
    (tmp_path / "mine.py").write_text(POLLS)
    experiment = bp.Experiment(path, flows=[bp.Flow("cubic", app=f"{tmp_path}/mine.py:{kind}")], duration=4)
    with pytest.raises(ControllerError, match=problem):
        experiment.emulate(careful=False)


def test_an_application_that_fails_ends_its_run_with_one_line_as_in_the_simulator(path, tmp_path):
    (tmp_path / "mine.py").write_text(POLLS)
    race = bp.Experiment(path, schemes=["cubic", "reno"], app=f"{tmp_path}/mine.py:Fails", duration=4)
    problem = r"app .*mine\.py:Fails: on_delivered at 0\.\d+ s raised RuntimeError: enough \(line 36\)"
    for start in (race.simulate, race.emulate):
        with pytest.raises(ControllerError, match=rf"cubic: .*{problem}; reno: .*{problem}") as error:
            start()
        assert "\n" not in str(error.value)


def test_a_race_on_the_kernel_continues_after_an_application_that_fails(path, tmp_path):
    (tmp_path / "mine.py").write_text(SOMETIMES)
    result = racing.race(
        [path.native], ["cubic"], out=None, app=f"{tmp_path}/mine.py:Sometimes", duration_s=2.0, seeds=3,
        on_kernel=True, careful=False,
    )  # fmt: skip
    assert [run.seed for run in result.runs] + [run.seed for run in result.failed] == [0, 2, 1]
    assert result.failed[0].why.endswith("raised RuntimeError: now (line 11)")
