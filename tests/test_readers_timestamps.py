"""Send times and reply times of a table are distinguished; reply times are converted before they make a Profile."""

import json

import numpy as np
import polars as pl
import pytest
from shared_data import require_data
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.measurements.profile import profile_from
from bentpipe.measurements.readers.measurement import ReadHints
from bentpipe.measurements.readers.timestamps import classify
from bentpipe.measurements.runs.imports import read_file
from bentpipe.profiles.measured.agreement import ping_stats, regular_times, simulated_ping_stats
from bentpipe.profiles.measured.make import FromPings, profile_from_pings

START_NS = 1_795_199_963 * 10**9
run = CliRunner().invoke


def probing(rhythm, seed, count=3000):
    """Send times [ms] and RTTs [ms] of a prober, in order at both ends; RTTs have levels, jitter and losses."""
    rng = np.random.default_rng(seed)
    rtt = np.round(30 + np.repeat(rng.normal(0, 6, count // 50), 50) + rng.gamma(2, 5, count), 1).clip(5)
    steps = {
        "every 10 ms": np.full(count, 10.0) + rng.exponential(0.3, count),
        "every second": np.full(count, 1000.0) + rng.exponential(0.3, count),
        "a pause after each reply": rtt + 100 + rng.exponential(0.3, count),
        "at random, densely": rng.exponential(10, count),
    }[rhythm]
    sent = np.concatenate([[0.0], np.cumsum(steps)[:-1]])
    arrived = np.minimum.accumulate((sent + rtt)[::-1])[::-1]
    return sent, arrived - sent, rng.random(count) < 0.01


def pings(at_ms, rtt_ms, lost):
    rtt_ms = np.where(lost, np.nan, rtt_ms)
    rows = pl.DataFrame({"unix_ns": START_NS + (at_ms * 1e6).astype(np.int64), "rtt_ms": rtt_ms})
    return rows.with_columns(pl.col("rtt_ms").fill_nan(None)).sort("unix_ns", maintain_order=True)


RHYTHMS = ["every 10 ms", "every second", "a pause after each reply", "at random, densely"]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rhythm", RHYTHMS)
def test_send_times_and_reply_times_are_distinguished(rhythm, seed):
    sent, rtt, lost = probing(rhythm, seed)
    for at, expected in ((sent, False), (sent + rtt, True)):
        rows = pings(at, rtt, lost)
        times = classify(rows["unix_ns"].to_numpy(), rows["rtt_ms"].fill_null(np.nan).to_numpy())
        assert times.are_reply_times is expected, times


@pytest.mark.parametrize("seed", range(5))
def test_undecided_timestamps_count_as_send_times(seed):
    rng = np.random.default_rng(seed)
    for at, rtt in (
        (np.cumsum(rng.exponential(5000, 500)), rng.uniform(20, 60, 500)),  # far apart, at random
        (np.arange(500) * 1000.0, np.full(500, 40.0)),  # an RTT that never changes
        (np.arange(50) * 10.0 + 40, rng.uniform(20, 60, 50)),  # too few
    ):
        assert not classify((at * 1e6).astype(np.int64), rtt).are_reply_times


@pytest.mark.parametrize("rhythm", ["every 10 ms", "a pause after each reply"])
def test_a_table_of_reply_times_makes_the_same_profile_as_one_of_send_times(rhythm, tmp_path):
    sent, rtt, _ = probing(rhythm, 1)
    none = np.zeros(rtt.size, bool)
    was = ping_stats(pings(sent, rtt, none))
    pings(sent + rtt, rtt, none).write_parquet(tmp_path / "replies.parquet")
    rows = pings(sent + rtt, rtt, none).select("unix_ns", "rtt_ms")
    rows.write_csv(tmp_path / "replies.csv")
    read = run(app, ["read", str(tmp_path / "replies.csv"), "-o", str(tmp_path / "out")])
    assert read.exit_code == 0, read.output
    assert "timestamps are reply times" in read.output
    for source in ("replies.parquet", "replies.csv", "out"):
        made = profile_from(tmp_path / source)
        assert source == "out" or any("timestamps are reply times" in note for note in made.notes)
        assert made.probes.sent_ns / 1e6 == pytest.approx(sent, abs=0.01)
        now = simulated_ping_stats(made.profile, regular_times(made.probes, made.profile))
        if rhythm == "every 10 ms":
            assert (now.p95_ms, now.p99_ms) == pytest.approx((was.p95_ms, was.p99_ms), rel=0.05)
    # The user's statement that they are send times is obeyed, with a note.
    result = run(
        app, ["profile", "from", str(tmp_path / "replies.csv"), "-o", str(tmp_path / "P"), "--times", "probe", "--json"]
    )
    assert result.exit_code == 0, result.output
    assert any("look like reply times" in note for note in json.loads(result.stdout)["notes"])


def test_the_series_with_most_replies_decide(tmp_path):
    parts = []
    for number, rhythm in enumerate(RHYTHMS[:3]):
        sent, rtt, lost = probing(rhythm, number)
        parts.append(pings(sent + rtt, rtt, lost).with_columns(pl.lit(f"pop{number}").alias("target")))
    pl.concat(parts).write_csv(tmp_path / "pings.csv")
    measured = read_file(tmp_path / "pings.csv").measurement
    assert any("timestamps are reply times" in note for note in measured.notes)
    assert not any("overtaken by later ones, but" in note for note in measured.notes)


@pytest.mark.parametrize(
    "file",
    [
        "latency_victoria_10ms/bent_pipe_victoria_2_latency.csv",
        "latency_victoria_10ms/bent_pipe_victoria_3_latency.csv",
        "latency_seattle_250ms/no-isl-ping-gw-seattle-230911-170535-0.1s-60min.txt",
    ],
)
def test_reply_times_of_campaigns_are_detected(file):
    path = require_data(file)
    measured = read_file(path).measurement
    assert any("timestamps are reply times" in note for note in measured.notes)
    assert measured.clock_jumps == 0
    made = profile_from_pings(read_file(path, hints=ReadHints(times="probe")).measurement.tables["probes"], FromPings())
    was, now = (
        ping_stats(made.probes.table()),
        simulated_ping_stats(made.profile, regular_times(made.probes, made.profile)),
    )
    if "victoria" in file:  # at Seattle the prober waits for each reply
        assert (now.p95_ms, now.p99_ms) == pytest.approx((was.p95_ms, was.p99_ms), rel=0.05)


def test_timestamps_of_ping_logs_are_not_examined(tmp_path):
    sent, rtt, _ = probing("at random, densely", 2, 1000)
    lines = ["PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data."]
    for number, (at, trip) in enumerate(zip(sent, rtt, strict=True), 1):
        stamp = START_NS / 1e9 + (at + trip) / 1e3
        lines.append(f"[{stamp:.6f}] 64 bytes from 192.0.2.1: icmp_seq={number} ttl=57 time={trip:.1f} ms")
    (tmp_path / "ping.log").write_text("\n".join(lines) + "\n")
    assert not any("timestamps" in note for note in profile_from(tmp_path / "ping.log").notes)
