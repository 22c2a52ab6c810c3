"""``bentpipe trigger test``: when would a condition have fired, and what does that save?"""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from shared_data import require_data

from bentpipe.errors import UserError
from bentpipe.testbed.agent.signals.dry_run import dry_run_trigger
from bentpipe.testbed.agent.signals.dry_run_text import firing_rows, summary_lines

pytest.importorskip("cel")

START_NS = 1_760_000_000_000_000_000
JUMP = "latency_ms > 2 * mean(latency_ms, '5s')"


@pytest.fixture
def dish(tmp_path):
    """Ten minutes of a terminal with a jump every minute."""
    path = tmp_path / "dish.parquet"
    latency = [90.0 if second % 60 == 30 else 30.0 + second % 3 for second in range(600)]
    times = [START_NS + second * 10**9 for second in range(600)]
    pl.DataFrame({"t_unix_ns": times, "pop_ping_latency_ms": latency}).write_parquet(path)
    return path


@pytest.fixture
def pings(tmp_path):
    """A minute of pings, ten a second, of which those of second 40 are slow, and one is lost."""
    path = tmp_path / "ping.txt"
    lines = ["PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data."]
    for number in range(600):
        rtt_ms = 90.0 if 400 <= number < 410 else 30.0
        if number != 200:
            stamp = f"[{1_760_000_000 + number / 10:.6f}]"
            lines.append(f"{stamp} 64 bytes from 192.0.2.1: icmp_seq={number + 1} ttl=55 time={rtt_ms:.1f} ms")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_counts_times_and_savings(dish):
    result = dry_run_trigger(JUMP, dish, cooldown_s=0, run_bytes=50_000_000, run_seconds=10)
    assert [firing.t_s - START_NS / 1e9 for firing in result.firings] == [31.0 + 60 * n for n in range(10)]
    assert result.least_between_s == 60.0
    assert result.firings_per_day == pytest.approx(10 * 86_400 / 599)
    assert result.holding == 10
    assert result.savings.share_of_time == pytest.approx(10 * 10 / 599)
    assert len(dry_run_trigger(JUMP, dish).firings) == 2  # the usual pause is five minutes
    assert not dry_run_trigger(JUMP, dish, for_windows=2).firings
    assert result.to_polars().columns == ["t_s", "latency_ms"]


def test_a_day_at_40_mbit_s_a_tenth_of_the_time_saves_nine_tenths(tmp_path):
    """Section 6.2 of the paper: 40 Mbit/s for 24 h is 3.46 Tbit; a tenth of the time saves 3.1."""
    path = tmp_path / "day.parquet"
    seconds = np.arange(0, 86_401, 4)
    latency = np.where(seconds % 600 == 300, 100.0, 30.0)
    pl.DataFrame({"t_unix_ns": START_NS + seconds * 10**9, "pop_ping_latency_ms": latency}).write_parquet(path)
    result = dry_run_trigger("latency_ms > 50", path, run_bytes=60 * 5_000_000, run_seconds=60)
    assert result.savings.continuous_bytes * 8 == pytest.approx(3.456e12)
    assert result.savings.triggered_bytes * 8 == pytest.approx(3.456e11, rel=0.01)
    assert "144 runs would send 346 Gbit; one that never ends 3.46 Tbit: 90.0% saved" in summary_lines(result)


def test_latency_of_a_status_is_said_to_be_smoothed(dish, pings):
    assert "mean of some 15 s" in dry_run_trigger(JUMP, dish).notes[0]
    assert not dry_run_trigger("latency_smoothed_ms > 50", dish).notes
    assert not any("15 s" in note for note in dry_run_trigger(JUMP, pings).notes)


def test_pings_are_latencies_too(pings):
    for name in ("latency_ms", "ping_ms"):
        result = dry_run_trigger(f"{name} > 2 * mean({name}, '5s')", pings, window_s=0.1, cooldown_s=0)
        (firing,) = result.firings
        assert firing.t_s == pytest.approx(1_760_000_040.1, abs=0.11)
    assert len(dry_run_trigger("ping_lost > 0.05", pings, window_s=1.0).firings) in (0, 1)


def test_windows_shorter_than_the_samples_are_filled(dish):
    result = dry_run_trigger("latency_ms > 2 * mean(latency_ms, '5s')", dish, window_s=0.25, cooldown_s=0)
    assert len(result.firings) == 10
    assert result.missing <= 25


def test_a_node_fires_at_the_same_times_as_the_dry_run(dish, pings):
    """The board and the dry run evaluate the same windows."""
    from test_testbed_signals import ListFeed, made_board

    from bentpipe.testbed.agent.signals.recordings import read_recording
    from bentpipe.triggers.trigger import Trigger

    for path, window_s in ((dish, 1.0), (dish, 0.5), (pings, 0.1), (pings, 1.0)):
        recording = read_recording(path)
        feed = ListFeed("replay", hold_s=max(recording.hold_s.values()))
        board, firings, clocks = made_board(feed)
        board.arm("a", Trigger(JUMP, window_s=window_s))
        for t_s, values in recording.rows():
            clocks.wall_s = clocks.steady_s = t_s
            board.take(feed, values)
        clocks.advance(1.0)
        board.pass_time()
        expected = dry_run_trigger(JUMP, path, window_s=window_s, cooldown_s=0).firings
        assert [each.window_end_at_ms for each in firings] == [round(each.t_s * 1000) for each in expected]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"expression": "latency_ms >"}, "does not parse|unexpected|mismatched|no viable"),
        ({"expression": "lateny_ms > 5"}, "did you mean 'latency_ms'"),
        ({"expression": "rain_mm_per_h > 5"}, "has no rain_mm_per_h"),
        ({"window_s": 0}, "window"),
        ({"for_windows": 0}, "for"),
        ({"cooldown_s": -1}, "cooldown"),
        ({"run_bytes": 5}, "both, or none"),
        ({"run_bytes": -5, "run_seconds": 1}, "run_bytes"),
        ({"run_bytes": 5, "run_seconds": 0}, "run_seconds"),
        ({"recording": "nowhere"}, "no such file"),
    ],
)
def test_mistakes_are_one_line(dish, change, line):
    arguments = {"expression": JUMP, "recording": dish, **change}
    with pytest.raises(UserError, match=line) as caught:
        dry_run_trigger(**arguments)
    assert "\n" not in str(caught.value)


def test_the_command_prints_a_table_or_json(dish):
    command = [sys.executable, "-m", "bentpipe", "trigger", "test", JUMP, "--recording", str(dish)]
    done = subprocess.run([*command, "--cooldown", "0s"], capture_output=True, text=True, check=True)
    assert "2025-10-09T08:53:51Z" in done.stdout
    assert "10 firings in 10.0 min" in done.stdout
    assert "note: latency_ms is the status' latency here" in done.stderr
    done = subprocess.run(
        [*command, "--format", "json", "--run-bytes", "5MB", "--run-seconds", "10"],
        capture_output=True,
        text=True,
        check=True,
    )
    document = json.loads(done.stdout)
    assert len(document["firings"]) == 2
    assert document["savings"]["runs"] == 2


def test_many_firings_are_listed_in_part(dish):
    result = dry_run_trigger("latency_ms > 31.5", dish, cooldown_s=0)
    assert len(result.firings) > 100
    assert len(firing_rows(result)[1]) == 100
    assert any("--format json" in line for line in summary_lines(result))


def test_on_real_telemetry_smoothed_latency_never_doubles_and_pings_do():
    kiel = sorted(require_data("dish_history_fjordlink_1hz").glob("*.gzip"))
    assert sum(len(dry_run_trigger(JUMP, path, cooldown_s=0).firings) for path in kiel[:2]) == 0
    victoria = require_data("latency_victoria_10ms") / "bent_pipe_victoria_2_latency.csv"
    assert len(dry_run_trigger(JUMP, victoria, window_s=0.5, cooldown_s=0).firings) == 11
