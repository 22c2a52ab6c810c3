"""An agent with a real runner: rehearsals on an emulated path, captures on a veth, and results that commands read."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from emulation import dumbbell_file, in_own_network, need
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.measurements.runs.store import find_measured
from bentpipe.runs.store import find_runs

WORKS = {
    "ping": {"every": "50ms", "seconds": 1},
    "iperf3": {"seconds": 1, "interval": 0.5},
    "call": {"seconds": 1, "bitrate": "500kbit"},
}


def run_script(mode: str, folder: Path, works: dict[str, dict[str, object]]) -> dict[str, Path]:
    """Run the works; return the folder of each result."""
    need("unshare", "bwrap", "tcpdump", "nft")
    if os.geteuid() != 0:
        pytest.skip("needs root")
    paths = in_own_network("testbed_rehearsal.py", mode, str(folder), json.dumps(works), timeout_s=100)
    return {each: Path(path) for each, path in paths.items()}


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    need("irtt", "iperf3")
    folder = tmp_path_factory.mktemp("rehearsal")
    profile = dumbbell_file(folder)
    (folder / hashlib.sha256(profile.read_bytes()).hexdigest()).write_bytes(profile.read_bytes())
    profile.unlink()
    return run_script("emulated", folder, WORKS)


def test_each_built_in_is_rehearsed_and_leaves_both_runs(rehearsed):
    for name, folder in rehearsed.items():
        outcome = json.loads((folder / "builtin.json").read_text())
        assert outcome["error"] is None, (name, outcome)
        (measured,) = find_measured(folder)
        if name == "iperf3":
            rate_bps = measured.samples["bytes"].sum() * 8 / measured.samples["duration_s"].sum()
            assert 4e6 < rate_bps < 10.5e6
        else:
            assert 29 < measured.summary["rtt_ms"]["median"] < 60, name
        (emulated,) = find_runs(folder / "emulation")
        assert emulated.record.world == "emulated"


def test_the_commands_read_a_rehearsal(rehearsed, tmp_path):
    result, profile = rehearsed["ping"], tmp_path / "P.parquet"
    for command in (
        ["analyze", "latency", str(result)],
        ["profile", "from", str(result), "-o", str(profile)],
        ["analyze", "throughput", str(rehearsed["iperf3"])],
        ["report", str(result / "emulation")],
    ):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, (command, done.output)
    assert (result / "emulation/report.html").stat().st_size > 10_000


def test_packets_of_the_run_alone_are_captured(tmp_path):
    ping = {"target": "203.0.113.10", "every": "50ms", "seconds": 0.5}
    lost = {"target": "203.0.113.99", "every": "100ms", "seconds": 0.3}
    results = run_script("capture", tmp_path, {"ping": ping, "lost": lost})
    listed = subprocess.run(
        ["tcpdump", "-n", "-r", str(results["ping"] / "capture/packets.pcap")],
        capture_output=True, text=True, check=True,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
    )  # fmt: skip
    lines = [line for line in listed.stdout.splitlines() if " ICMP echo " in line]
    assert len(lines) == len([line for line in lines if "203.0.113.10" in line]) == 20
    (measured,) = find_measured(results["lost"])
    assert measured.summary["loss"] == 1
