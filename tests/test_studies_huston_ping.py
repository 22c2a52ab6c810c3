"""huston-ping: simulated probes, and measured ones in their place."""

import numpy as np
import polars as pl
import pytest
from shared_data import require_data

from bentpipe.studies.running import run_study

START_NS = 1_700_000_007 * 10**9  # at :27 of a minute


def slotted(every_s: float, duration_s: float) -> pl.DataFrame:
    """Pings with another level in each slot of 15 s, a burst of 60 ms after each edge and losses before it."""
    rng = np.random.default_rng(1)
    t_s = np.arange(0, duration_s, every_s)
    level = rng.uniform(25, 60, int(duration_s / 15) + 1)[(t_s / 15).astype(int)]
    rtt_ms = level + rng.gamma(2, 1, t_s.size) + 60 * (t_s % 15 < 0.3)
    rtt_ms[t_s % 15 > 14.85] = np.nan
    unix_ns = START_NS + (t_s * 1e9).astype(np.int64)
    return pl.DataFrame({"unix_ns": unix_ns, "rtt_ms": rtt_ms}).with_columns(pl.col("rtt_ms").fill_nan(None))


def by_start(result, text: str) -> float | None:
    return next(row.ours for row in result.rows if row.quantity.startswith(text))


def test_measured_pings_replace_simulated_ones(tmp_path):
    file = tmp_path / "pings.parquet"
    slotted(0.02, 3700).write_parquet(file)
    result = run_study("huston-ping", tmp_path / "out", quick=True, data=file).result
    assert {row.basis for row in result.rows} == {f"measured: {file}"}
    assert by_start(result, "period") == 15.0
    assert 55 < by_start(result, "extra delay after an edge, low") < 75
    assert by_start(result, "loss") == pytest.approx(7 / 750, rel=0.01)  # of 750 in a slot those from 14.86 s on
    assert all(verdict.holds is not False for verdict in result.verdicts[:3])


def test_without_measurements_probes_are_simulated(tmp_path):
    result = run_study("huston-ping", tmp_path, quick=True).result
    assert all(row.basis.startswith("simulated: ") for row in result.rows)
    assert by_start(result, "period") == 15.0
    assert 0 <= by_start(result, "loss") < 0.01  # an idle path
    assert {verdict.statement: verdict.holds for verdict in result.verdicts}[
        "latency changes regularly every 15 seconds"
    ]


def test_victoria_has_the_statistics_of_its_file(tmp_path):
    result = run_study("huston-ping", tmp_path, data=require_data()).result
    assert all(row.basis.startswith("measured: ") for row in result.rows)
    assert sum(row.quantity.startswith("period") and row.ours == 15.0 for row in result.rows) == 2
    assert by_start(result, "loss") == pytest.approx(0.025, abs=0.001)
