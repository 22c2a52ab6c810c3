"""Built-in experiments between a client node and a server node, each in a network namespace of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from chromium import PROGRAM
from emulation import cannot, need

from bentpipe.measurements.runs.store import read_measured

SCRIPT = Path(__file__).with_name("testbed_two_ends.py")
PAGE = "http://203.0.113.10:8080/index.html"
WORKS = {
    "irtt": {"seconds": 0.5},
    "call": {"seconds": 1},
    "http3": {"size": 500_000, "count": 2},
    "web": {"url": PAGE},
}


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    """What both ends of each experiment committed."""
    need("unshare", "bwrap", "setpriv", "nft", "irtt")
    if os.geteuid() != 0:
        pytest.skip("needs root")
    works = {name: args for name, args in WORKS.items() if name != "web" or PROGRAM is not None}
    folder = tmp_path_factory.mktemp("ends")
    done = subprocess.run(
        ["unshare", "-n", sys.executable, str(SCRIPT), "client", str(folder), json.dumps(works)],
        capture_output=True, text=True, check=False, timeout=200,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
    )  # fmt: skip
    if done.returncode != 0 and done.stderr.startswith("unshare"):
        cannot(f"no namespaces on this machine: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", WORKS)
def test_both_ends_of_a_run_are_done_with_their_results(ends, name):
    if name not in ends:
        cannot("no Chromium on this machine")
    for end, (state, reason, folder) in ends[name].items():
        record = json.loads(Path(folder, "testbed.json").read_text())
        assert (state, reason, record["end"], record["runner"]) == ("done", "", end, "bubblewrap")
        assert min(record["up_bytes"], record["down_bytes"]) > 0
    assert set(ends[name]) == ({"client"} if name == "web" else {"client", "server"})
    folder = Path(ends[name]["client"][2])
    outcome = json.loads((folder / "builtin.json").read_text())
    assert outcome["error"] is None
    run = read_measured(folder)
    if name in ("irtt", "call"):
        assert run.summary["loss"] == 0
        assert run.probes["up_ms"].null_count() == run.probes["down_ms"].null_count() == 0
    elif name == "web":
        assert 200_000 < run.samples["bytes"].sum() < 300_000
    else:
        assert run.samples["bytes"].sum() >= 900_000
