"""Video calls over simulated paths."""

import json

import numpy as np
import polars as pl
import pytest
from emulation import bentpipe
from hypothesis import given
from hypothesis import strategies as st

import bentpipe as bp
from bentpipe.errors import UserError
from bentpipe.execution.calls import _freezes, call, frames_per_second
from bentpipe.experiments.apps import parse_app
from bentpipe.profiles import preset_profile
from bentpipe.profiles.parquet import write_profile


@pytest.fixture(scope="module")
def clean():
    return preset_profile("dumbbell:rate=50mbit,rtt=40ms,queue=100ms", 60.0)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("call", {}),
        ("call:max=1mbit,fps=25", {"max_bps": 1_000_000, "fps": 25}),
        ("call:start=100kbit,ways=1,hold=jitter", {"start_bps": 100_000, "both_ways": False, "holds_rtt": False}),
        ("call:fec=off", {"has_fec": False}),
    ],
)
def test_a_call_is_parsed(text, changed):
    defaults = {"fps": 30, "start_bps": 300_000, "max_bps": 2_500_000, "both_ways": True, "holds_rtt": True}
    times = {"has_fec": True, "encode_ns": 5_000_000, "decode_ns": 3_000_000, "display_ns": 22_000_000}
    assert parse_app(text).to_dict() == {"call": {**defaults, **times, **changed}}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("call:max=1kbit", "max is 1000 bit/s; expected 30 kbit/s to 1 Gbit/s"),
        ("call:fps=0", "whole number from 1 to 240"),
        ("call:fps=9999999", "whole number from 1 to 240"),
        ("call:ways=3", "ways is '3'"),
        ("call:hold=all", "hold is 'all'"),
        ("call:fec=2", "fec is '2'"),
        ("call:rate=3mbit", "call takes no 'rate'"),
        ("call:2mbit", "name=value"),
    ],
)
def test_an_impossible_call_is_refused(text, named):
    with pytest.raises(UserError, match=named):
        parse_app(text)


@given(st.text(max_size=20))
def test_any_options_are_a_call_or_one_line(text):
    problem = ""
    try:
        parse_app(f"call:{text}")
    except UserError as error:
        problem = str(error)
    assert "\n" not in problem


def test_a_call_over_a_clean_path_is_even_in_both_directions(clean):
    every = call([clean], phase_s=0.0)
    assert [(each.direction, each.scheme, each.world) for each in every] == [
        ("down", "none", "simulated"),
        ("up", "none", "simulated"),
    ]
    for each in every:
        assert each.frames - each.frames_shown <= 4
        assert each.fps_mean == pytest.approx(30, abs=0.1)
        assert each.freezes == 0
        assert 2.3e6 < each.rate_bps < 2.6e6
        # 20 ms of path; 30 ms for encoder, decoder and display; the rest is the buffer's
        assert 55 < each.delay_mean_ms < 70
        assert 8 < each.jitter_buffer_ms < 20
        assert each.delay_mean_ms < each.delay_p99_ms < 160


def test_a_call_in_one_direction_has_one_row(clean):
    assert [each.direction for each in call([clean], app="call:ways=1", duration_s=10)] == ["down"]


def test_the_same_call_has_the_same_figures():
    path = bp.Profile.make(site="louvain", to="london", duration=30, seed=1).native
    first, second = (call([path], duration_s=20, phase_s=0.0) for _ in range(2))
    assert first == second
    assert call([path], duration_s=20, phase_s=0.0, seeds=2)[2:] != first


def test_recovery_inside_the_network_keeps_the_delay_of_frames_low():
    path = bp.Profile.make(site="louvain", to="london", duration=301, seed=1, loss="satguard").native
    every = call([path], duration_s=300, recovery="none,satguard", phase_s=0.0)
    none, satguard = ([each for each in every if each.scheme == scheme] for scheme in ("none", "satguard"))
    assert sum(each.delay_p99_ms for each in satguard) < sum(each.delay_p99_ms for each in none)
    assert sum(each.freezes for each in satguard) < sum(each.freezes for each in none)


def test_a_narrow_path_lowers_the_rate():
    narrow = preset_profile("dumbbell:rate=1mbit,rtt=40ms,queue=200ms", 60.0)
    for each in call([narrow], phase_s=0.0):
        assert 0.4e6 < each.rate_bps < 1e6
        assert each.delay_mean_ms < 250


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-rate", "1kbit"], "--max-rate: 1000 bit/s; expected 30 kbit/s to 1 Gbit/s"),
        (["--max-rate", "x"], "--max-rate: 'x' is not a number with a unit"),
        (["--for", "0.001s"], "--for: 0.001 s; expected at least 0.1 s"),
        (["--for", "90s"], "--for: 90 s exceeds the Profile"),
    ],
)
def test_errors_name_the_options_of_the_command(tmp_path, clean, options, message):
    write_profile(clean, tmp_path / "P.parquet")
    done = bentpipe("call", str(tmp_path / "P.parquet"), *options)
    assert done.returncode == 2
    assert message in done.stderr


def test_freezes_are_long_gaps():
    even = np.full(100, 1 / 30)
    assert _freezes(even) == 0
    assert _freezes(np.concatenate([even, [0.17], even, [0.5], even])) == 1
    assert _freezes(np.concatenate([even, [0.19], even, [0.5], even])) == 2


def test_goodput_and_delays_of_a_call_are_in_the_run(clean):
    experiment = bp.Experiment(
        bp.Profile.preset("dumbbell:rate=50mbit,rtt=40ms,queue=100ms", duration=30), schemes="cubic", app="call"
    )
    (run,) = experiment.simulate()
    assert 1.5e6 < run.summary()["goodput_bps"][0] < 3e6
    frames = run.applications().filter(pl.col("kind") == "frame")
    assert len(frames) > 850


def test_the_command_prints_a_table_and_every_direction(tmp_path, clean):
    write_profile(clean, tmp_path / "P.parquet")
    done = bentpipe("call", str(tmp_path / "P.parquet"), "--for", "10s", "--json")
    rows = json.loads(done.stdout)["calls"]
    keys = {"scheme", "delay_mean_ms", "delay_p99_ms", "jitter_buffer_ms", "fps_mean", "fps_sd", "freezes"}
    assert [row["direction"] for row in rows] == ["down", "up"]
    assert all(keys <= set(row) for row in rows)
    table = bentpipe("call", str(tmp_path / "P.parquet"), "--for", "10s", "--recovery", "none")
    assert "jitter buffer" in table.stdout


def test_a_call_on_the_kernel_is_refused_in_one_line(tmp_path, clean):
    write_profile(clean, tmp_path / "P.parquet")
    done = bentpipe("race", str(tmp_path / "P.parquet"), "--cc", "cubic", "--app", "call", "--on-kernel", "-o", "out")
    assert done.returncode == 2
    assert "a call; expected none, only the simulator has it" in done.stderr


MINE = """
from bentpipe.plugin import App

class Answer(App):
    def on_datagram(self, now_s, content, size_bytes):
        self.send(content[::-1], size_bytes)

class Ask(App):
    end = "sender"
    peer = Answer

    def on_started(self, now_s):
        self.send(b"one", 100)
        self.record(0, kind="echo", start_s=now_s)

    def on_datagram(self, now_s, content, size_bytes):
        assert (content, size_bytes) == (b"eno", 100)
        self.record(0, completed_s=now_s)
"""


def test_an_application_in_python_has_datagrams(tmp_path, monkeypatch, clean):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    path = bp.Profile.preset("dumbbell:rate=50mbit,rtt=40ms,queue=100ms", duration=5)
    (run,) = bp.Experiment(path, schemes="cubic", app="./mine.py:Ask").simulate()
    (row,) = run.applications().to_dicts()
    assert row["completed_s"] - row["start_s"] == pytest.approx(0.040, abs=0.001)


def test_a_datagram_that_is_shorter_than_its_content_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE.replace('b"one", 100', 'b"one", 1'))
    path = bp.Profile.preset("dumbbell:rate=50mbit,rtt=40ms,queue=100ms", duration=5)
    with pytest.raises(UserError, match="a datagram of 1 bytes with a content of 3"):
        bp.Experiment(path, schemes="cubic", app="./mine.py:Ask").simulate()


def test_the_frame_rate_of_a_call_counts_whole_seconds_and_of_a_short_one_the_mean_rate():
    assert frames_per_second(np.arange(16) / 30).tolist() == [pytest.approx(30)]
    assert frames_per_second(np.arange(65) / 30).tolist() == [30, 30]
    stalled = np.concatenate([np.arange(30) / 30, 2.5 + np.arange(20) / 30])
    assert frames_per_second(stalled).tolist() == [30, 0, 15]
