"""Real browsers on emulated paths: calls between two, and loads of a page."""

import json
import shutil
from pathlib import Path

import pytest
from emulation import bentpipe

from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile

pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium: apt-get install chromium")


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "P.parquet"
    write_profile(preset_profile("dumbbell:rate=20mbit,rtt=60ms,queue=100ms", 60.0), file)
    return file


def test_a_call_between_browsers_has_both_directions(path):
    done = bentpipe("call", path, "--browser", "--for", "5s", "--phase", "0s", "--json", timeout_s=150)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["calls"]
    assert [(row["direction"], row["world"], row["scheme"]) for row in rows] == [
        ("down", "emulated", "none"),
        ("up", "emulated", "none"),
    ]
    for row in rows:
        # 30 ms of path, and what a browser takes; a busy machine may take long.
        assert 31 < row["delay_mean_ms"] < 1000
        assert row["delay_mean_ms"] <= row["delay_p99_ms"]
        assert 5 < row["fps_mean"] <= 31
        assert row["frames_shown"] > 25
        assert row["rate_bps"] > 100_000


@pytest.mark.parametrize("http", ["1", "2", "3"])
def test_a_page_is_loaded_with_each_version_of_http(path, http):
    command = ("web", "load", "median", path, "--browser", "--http", http, "--loads", "1", "--phase", "0s", "--json")
    done = bentpipe(*command, timeout_s=150)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["loads"]
    (row,) = rows
    assert (row["load"], row["http"], row["world"], row["failed"]) == (0, http, "emulated", 0)
    # 2.65 MB at 20 Mbit/s take 1.06 s.
    assert row["plt_ms"] > 1060
    assert 60 < row["fcp_ms"] < row["plt_ms"]
    assert row["speed_index_ms"] > 60
    assert row["lcp_ms"] >= row["fcp_ms"]
    assert row["scheme"] == "none"
    assert row["cc"] == (
        "reno" if http == "3" else Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    )
    assert 120 < row["byte_index_ms"] < row["plt_ms"]
    assert 120 < row["object_index_ms"] < row["plt_ms"]
