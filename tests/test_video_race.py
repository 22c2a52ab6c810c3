"""`bentpipe video race`: traces, windows, forecasts from elsewhere, and gains."""

import json
from dataclasses import replace

import numpy as np
import pytest
from emulation import bentpipe

from bentpipe.errors import UserError
from bentpipe.execution.video_forecasts import forecast, train
from bentpipe.execution.video_gains import summarize
from bentpipe.execution.video_traces import cut, halves, read_trace
from bentpipe.execution.videos import VideoResult, race_videos
from bentpipe.predict.signals import THROUGHPUT, Session, Signal


def trace(folder, name="t.txt", seconds=300, seed=0):
    draws = np.random.default_rng(seed)
    mbps = 3 * np.exp(np.cumsum(draws.normal(0, 0.15, seconds)).clip(-1, 1))
    file = folder / name
    file.write_text("".join(f"{t} {each:.3f}\n" for t, each in enumerate(mbps)), encoding="utf-8")
    return file


def test_traces_of_seconds_and_of_packets_are_read(tmp_path):
    (tmp_path / "a.txt").write_text("0.0 2.0\n1.0 4.0\n3.0 8.0\n", encoding="utf-8")
    assert read_trace(tmp_path / "a.txt").sessions[0].values.tolist() == [4.0, 8.0, 8.0]
    (tmp_path / "m.trace").write_text("".join(f"{t}\n" for t in range(1, 3001)), encoding="utf-8")
    assert read_trace(tmp_path / "m.trace").sessions[0].values == pytest.approx([12.0] * 3)


def test_windows_have_the_scale_and_dead_ones_are_left_out(tmp_path):
    (tmp_path / "a.txt").write_text(
        "".join(f"{t} {0 if 300 < t < 400 else 10 + t % 7}\n" for t in range(900)), encoding="utf-8"
    )
    windows, dead = cut(read_trace(tmp_path / "a.txt"), 0, 240, 4.3, 0.75, 0.05, 0.0)
    assert (len(windows), dead) == (2, 1)
    assert all(np.median(window.mbps) == pytest.approx(0.75 * 4.3) for window in windows)


def test_a_rate_holds_from_the_line_before_to_its_own_time(tmp_path):
    """Pensieve's simulator: `cooked_bw[i]` lasts from `cooked_time[i - 1]` to `cooked_time[i]`."""
    file = tmp_path / "uneven.txt"
    file.write_text("0.5 9\n2.5 1\n3.5 4\n6.0 2\n")
    (session,) = read_trace(file).sessions
    assert session.values.tolist() == [1, 1, 4, 2, 2, 2]


def test_windows_with_a_run_that_is_not_valid_are_left_out_for_all():
    def result(trace, policy, qoe, *, valid=True):
        return VideoResult(trace, policy, qoe, 2.0, 0.0, 1, 0.5, 49, valid=valid)

    played = [
        *(result("a", "robust-mpc", 1.0), result("a", "mpc", 1.5)),
        *(result("b", "robust-mpc", 9.0), result("b", "mpc", 0.0, valid=False)),
    ]
    base, plain = summarize(played)
    assert (base.n, plain.n) == (1, 1)
    assert plain.gain_mean.percent == 50.0
    assert [each.n for each in summarize(played[2:])] == [1, 1]  # nothing else is left


def test_no_window_is_in_the_half_that_its_forecasts_are_trained_on(tmp_path):
    long = read_trace(trace(tmp_path, seconds=4000))
    (first, one, begin), (second, other, same) = halves([long], 240)
    assert (one, other) == (0, 1)
    assert begin == same == long.span[0]
    assert first.span[1] < second.span[0]


def test_names_of_the_later_half_count_from_the_begin_of_the_trace(tmp_path):
    raced = race_videos([trace(tmp_path, seconds=2100)], ["bola"], later_half=True)
    assert next(each.trace for each in raced.results) == "t@1094s"


def test_who_knows_what_comes_gains(tmp_path):
    files = [trace(tmp_path, f"{seed}.txt", seed=seed) for seed in range(4)]
    raced = race_videos(files, ["robust-mpc", "mpc", "mpc-oracle"])
    by_policy = {each.policy: each for each in summarize(raced.results)}
    assert by_policy["mpc-oracle"].qoe_mean >= max(each.qoe_mean for each in by_policy.values())
    assert by_policy["mpc-oracle"].share_of_oracle == pytest.approx(1.0)


def test_forecasts_of_a_single_short_trace_need_another(tmp_path):
    with pytest.raises(UserError, match="nothing else to train on"):
        race_videos([trace(tmp_path)], ["mpc-forecast"])


def test_forecasts_are_trained_on_other_traces(tmp_path):
    files = [trace(tmp_path, f"{seed}.txt", seconds=700, seed=seed) for seed in range(2)]
    raced = race_videos(files, ["mpc-forecast"], model="ols-phase")
    assert all(each.chunks == 49 for each in raced.results)


def test_the_command_prints_rows_and_a_table(tmp_path):
    file = trace(tmp_path)
    done = bentpipe("video", "race", str(file), "--policy", "robust-mpc,bola", "--json")
    rows = json.loads(done.stdout)["rows"]
    assert [row["policy"] for row in rows] == ["robust-mpc", "bola"]
    assert {"trace", "policy", "qoe_mean", "bitrate_mbps", "stall_s", "switches"} <= set(rows[0])
    assert "QoE" in bentpipe("video", "race", str(file), "--policy", "robust-mpc,bola").stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--policy", "bolla"), "no policy 'bolla'"),
        (("--buffer", "1s"), "at least a chunk"),
        (("--windows", "1s"), "30s to 24h"),
        (("--windows", "1000s"), "no window of 1000 s"),
        (("--scale", "-1"), "0 (as they are) to 1000"),
        (("--later-half",), "has no second half; expected a trace of 1920 s or more"),
        (("--policy", "mpc-forecast"), "or others to train on; try policies without it"),
    ],
)
def test_bad_input_is_refused_in_a_line(tmp_path, options, message):
    done = bentpipe("video", "race", str(trace(tmp_path)), *options)
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_a_window_after_a_long_gap_has_forecasts_once_there_are_samples():
    values = np.random.default_rng(0).uniform(3, 8, 900)
    trained = train([Signal(THROUGHPUT, "t", (Session(np.arange(900.0), values),), clock_known=False)], "ols-phase")
    values[10:62] = np.nan
    gap = Signal(THROUGHPUT, "t", (Session(np.arange(900.0), values),), clock_known=False)
    (window, *_), _ = cut(gap, 0, 240, 4.3, 1.0, 0.25, 0.0)
    first = replace(window, first=60, mbps=window.mbps)
    rates = np.array(forecast(first, trained).rates_bps).reshape(240, -1)
    assert (rates[0] == 0).all()  # 30 s without a sample: nothing is known
    assert (rates[10:] > 0).all()
