"""`bentpipe analyze`: JSON as documented, figures, and errors of one line."""

import json

import polars as pl
import pytest
from analysis_series import shifting, slotted
from typer.testing import CliRunner

from bentpipe.cli.main import app

run = CliRunner().invoke


@pytest.fixture
def pings(tmp_path):
    file = tmp_path / "pings.parquet"
    rows = slotted().with_columns(site=pl.lit("home"), target=pl.lit("pop"))
    rows.write_parquet(file)
    return file


def test_handovers_print_json_and_draw(pings, tmp_path):
    figure = tmp_path / "slots.png"
    result = run(app, ["analyze", "handovers", str(pings), "--json", "--plot", str(figure)])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["found"] is True
    assert found["period_s"] == 15.0
    assert found["p_value"] < 0.01
    assert len(found["slots"]) > 55
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_none_is_an_answer(tmp_path):
    file = tmp_path / "none.parquet"
    shifting(0).write_parquet(file)
    figure = tmp_path / "none.svg"
    result = run(app, ["analyze", "handovers", str(file), "--json", "--plot", str(figure)])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["found"] is False
    assert figure.stat().st_size > 1000


@pytest.mark.parametrize("what", ["latency", "loss", "spikes"])
@pytest.mark.parametrize("how", [[], ["--json"]])
def test_the_others_print(pings, what, how):
    result = run(app, ["analyze", what, str(pings), "--target", "pop", *how])
    assert result.exit_code == 0, result.output
    if how:
        json.loads(result.stdout)


def test_paths_orientation_and_throughput_draw(tmp_path):
    tables = {
        "path": {
            "probe": ["p", "p"],
            "target": ["8.8.8.8"] * 2,
            "unix_ns": [0, 0],
            "ttl": [1, 2],
            "address": ["100.64.0.1", "8.8.8.8"],
            "rtt_ms": [30.0, 50.0],
        },
        "orientation": {
            "azimuth_deg": [1.0] * 30,
            "elevation_deg": [60.0] * 30,
            "latency_ms": [float(k) for k in range(30)],
        },
        "throughput": {
            "unix_ns": [k * 86_400 * 10**9 for k in range(60)],
            "direction": ["down"] * 60,
            "throughput_bps": [1e8 + k for k in range(60)],
        },
    }
    for what, rows in tables.items():
        file, figure = tmp_path / f"{what}.parquet", tmp_path / f"{what}.png"
        pl.DataFrame(rows).write_parquet(file)
        result = run(app, ["analyze", what, str(file), "--json", "--plot", str(figure)])
        assert result.exit_code == 0, result.output
        json.loads(result.stdout)
        assert figure.stat().st_size > 1000


def test_errors_are_one_line_and_exit_2(pings, tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1" + bytes(100))
    for arguments, said in (
        ([str(tmp_path / "absent.parquet")], "no such file"),
        ([str(broken)], "does not read as Parquet"),
        ([str(pings), "--target", "mars"], "no rows with target 'mars'"),
    ):
        result = run(app, ["analyze", "handovers", *arguments])
        assert result.exit_code == 2
        assert said in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
