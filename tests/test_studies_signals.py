"""The studies of video over forecasts, and of handovers: simulated, quick; measured where the data are there."""

import numpy as np
import pytest
from shared_data import require_data

from bentpipe.errors import UserError
from bentpipe.studies.running import run_study

pytest.importorskip("xgboost")


def test_video_over_computed_paths(tmp_path):
    result = run_study("t3p-abr", tmp_path, quick=True).result
    rows = {row.quantity.partition(":")[0]: row for row in result.rows}
    assert {"QoE, mean, robust-mpc", "QoE, mean, mpc-oracle", "share of the oracle's gain in the mean, mpc"} <= set(
        rows
    )
    published = [row for row in result.rows if row.published is not None]
    assert [row.published for row in published] == [25.0, 30.0]
    assert all(row.basis.startswith("simulated: computed paths") for row in result.rows)
    # Two windows decide nothing.
    assert [verdict.holds for verdict in result.verdicts] == [None] * 4
    assert rows["QoE, mean, mpc-oracle"].ours >= rows["QoE, mean, robust-mpc"].ours


def test_one_trace_of_throughput_is_enough(tmp_path):
    trace = tmp_path / "trace.txt"
    trace.write_text("".join(f"{t} {3 + (t // 15) % 4}\n" for t in range(3000)))
    result = run_study("t3p-abr", tmp_path / "out", quick=True, data=trace).result
    assert all("trace.txt" in row.basis for row in result.rows)
    assert len(result.verdicts) == 4


def test_handovers_of_computed_pings(tmp_path):
    result = run_study("t3p-handovers", tmp_path, quick=True).result
    rows = {row.quantity: row.ours for row in result.rows}
    assert rows["error of the first half's clock"] < 0.3
    assert 0.8 < rows["next level within the model's 90 % interval"] <= 1
    assert rows["goodput over that without a hint: announcements"] > 0.5
    assert len(result.verdicts) == 6


def test_handovers_of_measured_pings(tmp_path):
    data = require_data() / "latency_victoria_10ms" / "bent_pipe_victoria_2_latency.csv"
    result = run_study("t3p-handovers", tmp_path, quick=True, data=data).result
    rows = {row.quantity: row.ours for row in result.rows}
    assert rows["error of the first half's clock"] is None  # 400 s do not show a clock
    assert 60 < rows["gap at an edge: median"] < 140


def test_pings_without_slots_are_named(tmp_path):
    log = tmp_path / "flat.csv"
    noise = np.random.default_rng(19).exponential(3.0, 9000)
    log.write_text("\n".join(["unix_s,rtt_ms", *(f"{1.75e9 + t / 10},{40 + noise[t]}" for t in range(9000))]))
    result = run_study("t3p-handovers", tmp_path / "out", quick=True, data=log).result
    assert any("left out: flat.csv" in note for note in result.notes)


def test_throughput_that_is_too_short_is_refused(tmp_path):
    trace = tmp_path / "short.txt"
    trace.write_text("0 3\n1 4\n2 5\n")
    with pytest.raises(UserError, match=r"short\.txt"):
        run_study("t3p-abr", tmp_path / "out", quick=True, data=trace)
