"""Runs on an emulated path, as root and as a user: what they reach, and how they end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from emulation import cannot, dumbbell_file, need
from testbed_scenarios import PYTHON

SCRIPT = Path(__file__).with_name("testbed_emulated.py")


@pytest.mark.parametrize(
    ("runner", "enter", "limits"), [("process", [], "cgroups"), ("bubblewrap", ["unshare", "-Ur"], "polled")]
)
def test_a_run_on_an_emulated_path(runner, enter, limits, tmp_path):
    need("unshare", "ping", *(["bwrap", "setpriv"] if runner == "bubblewrap" else []))
    if not Path(PYTHON).exists():
        cannot(f"no {PYTHON} on this machine")
    if not enter and os.geteuid() != 0:
        pytest.skip("needs root")
    profile = dumbbell_file(tmp_path)
    done = subprocess.run(
        [*enter, sys.executable, str(SCRIPT), runner, limits, str(profile)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result.pop("up") >= 2
    assert result.pop("down") >= 2
    assert result == {
        "out": ["server"],
        "code": 0,
        "runs": 2,
        "after_link_down": 0,
        "stopped": "stopped",
        "left": [],
        "swept": True,
        "swept_again": [],
    }
