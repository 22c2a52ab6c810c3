"""Built-in experiments between a client node and a server node, each in a network namespace of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from chromium import PROGRAM
from emulation import cannot, in_own_network, need

from bentpipe.measurements.runs.store import read_measured

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
    return in_own_network("testbed_two_ends.py", "client", str(folder), json.dumps(works), timeout_s=200)


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
        # Not 0: a busy machine drops a datagram that a program reads too late.
        assert run.summary["loss"] < 0.5
        for direction in ("up_ms", "down_ms"):
            assert run.probes[direction].count() > 0.5 * run.probes.height
    elif name == "web":
        assert 200_000 < run.samples["bytes"].sum() < 300_000
    else:
        assert run.samples["bytes"].sum() >= 900_000
