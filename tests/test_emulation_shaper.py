"""The example shaper: its decisions, and an upload through it on an emulated path with a long queue."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from emulation import bentpipe, need, require_emulation

from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "shaper"


@pytest.fixture(scope="module")
def shaper():
    spec = importlib.util.spec_from_file_location("shaper", FOLDER / "shaper.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["shaper"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["shaper"]


def test_a_longer_path_is_no_queue_and_a_queue_is(shaper):
    rate = shaper.Rate(10e6, 1e6, 100e6)
    control = shaper.EdgeControl(rate)
    control.step(0.0, -3.0, 9e6, 40.0, 40.0, 40.0)  # the first edge that it sees
    control.step(0.2, -3.0, 9e6, 41.0, 40.0, 40.0)
    assert rate.bps > 10e6  # used, without a queue
    control.step(0.4, -3.0, 9e6, 70.0, 40.0, 40.0)
    assert rate.bps < 8.1e6  # RTT of the same slot: a queue
    before = rate.bps
    control.step(12.0, 12.0, 7e6, 60.0, 60.0, 40.0)
    assert rate.bps == pytest.approx(0.6 * before)  # an edge: the queue empties
    control.step(12.8, 12.0, 5e6, 60.0, 60.0, 40.0)
    assert rate.bps == pytest.approx(0.9 * before)  # 60 ms is the new path's, not a queue
    control.step(13.4, 12.0, 7e6, 61.0, 60.0, 40.0)
    assert rate.bps > 0.9 * before


def test_a_base_that_is_hardly_a_path_is_drained_again(shaper):
    rate = shaper.Rate(10e6, 1e6, 100e6)
    control = shaper.EdgeControl(rate)
    control.step(0.0, -3.0, 9e6, 40.0, 40.0, 40.0)
    control.step(12.0, 12.0, 9e6, 200.0, 200.0, 40.0)
    for step in range(2):
        control.step(12.8 + 0.5 * step, 12.0, 5e6, 150.0, 150.0, 40.0)
    assert rate.bps == pytest.approx(10e6 * 0.6**3)
    control.step(14.0, 12.0, 2e6, 50.0, 50.0, 40.0)
    assert rate.bps == pytest.approx(10e6 * 0.6**3)  # not back to a rate that filled the queue


def test_silence_lowers_the_rate_to_its_limit(shaper):
    rate = shaper.Rate(10e6, 1e6, 100e6)
    control = shaper.EdgeControl(rate)
    for second in range(60):
        control.step(float(second), -3.0, 0.0, None, None, None)
    assert rate.bps == 1e6


def test_the_control_takes_a_longer_path_for_a_queue(shaper):
    rate = shaper.Rate(10e6, 1e6, 100e6)
    control = shaper.BlindControl(rate)
    for second in range(10):
        control.step(float(second), 9e6, [40.0] * 6)
    assert rate.bps > 10e6
    for second in range(10, 20):
        control.step(float(second), 9e6, [80.0] * 6)
    assert rate.bps < 6e6


def test_an_upload_through_it_delays_pings_less(tmp_path):
    require_emulation()
    need("iperf3", "ping")
    path = tmp_path / "P.parquet"
    write_profile(preset_profile("dumbbell:rate=8mbit,rtt=40ms,queue=400ms", 60.0), path)
    figures = {}
    for name in ("none", "adaptive"):
        upload = [sys.executable, FOLDER / "upload.py", "--for", "8", "--shaper", name]
        done = bentpipe("run", path, "--server", "iperf3 -s -1", "--", *upload)
        assert done.returncode == 0, done.stderr
        figures[name] = json.loads(done.stdout)
    assert figures["adaptive"]["rtt_p95_ms"] < 0.8 * figures["none"]["rtt_p95_ms"]
    assert figures["adaptive"]["goodput_mbps"] > 0.5 * figures["none"]["goodput_mbps"]


def test_a_device_that_is_not_there_is_one_line():
    need("ip")
    command = [sys.executable, str(FOLDER / "shaper.py"), "nothing0", "--target", "127.0.0.1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("shaper: nothing0: ")
