"""Concurrent and nested emulations."""

import itertools
import json
import shlex
import subprocess
import sys

import pytest
from disturbance import first_valid
from emulation import CLIENT, SERVER, echo, python

from bentpipe.execution.program import run_program
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.store import find_runs

pytestmark = pytest.mark.usefixtures("emulation")


def test_concurrent_emulations_are_isolated(dumbbell, tmp_path):
    """Two emulations with the same addresses: each client reaches its own server, over its own path."""
    slow = preset_profile("dumbbell:rate=10mbit,rtt=90ms", 60.0, start_unix_ns=0, name="slow")
    file = tmp_path / "slow.parquet"
    write_profile(slow, file)
    out = tmp_path / "other.json"
    command = ["-m", "bentpipe", "run", str(file), "--server", SERVER, "--", sys.executable, "-c", CLIENT]
    with subprocess.Popen(
        [sys.executable, *command, "20", "0.01", "100", "4", str(out)], stderr=subprocess.PIPE, text=True
    ) as other:
        rtts, _ = echo(dumbbell, tmp_path, n=20)
        _, output = other.communicate()
    assert other.returncode == 0, output
    assert min(rtts) < 80.0
    assert min(json.loads(out.read_text())) >= 90.0


#: Runs a command with the address of the server here behind it: within, the name is another's.
WITH_ADDRESS = "import os, socket, sys; os.execv(sys.argv[1], [*sys.argv[1:], socket.gethostbyname('server')])"


def test_delays_of_nested_emulations_add_up(dumbbell, tmp_path):
    """From inside, the inner server is behind the inner path, and the outer server behind both."""
    file = tmp_path / "dumbbell.parquet"
    write_profile(dumbbell, file)
    one, both = tmp_path / "one.json", tmp_path / "both.json"
    client = shlex.join([sys.executable, "-c", CLIENT, "20", "0.01", "100", "4"])
    outs = (tmp_path / f"inner-{attempt}" for attempt in itertools.count())

    def nested():
        out = next(outs)
        inner = [sys.executable, "-m", "bentpipe", "run", file, "-o", out, "--server", SERVER, "--", "sh", "-c"]
        command = [*map(str, inner), f'{client} {one} && {client} {both} "$1"', "sh"]
        outer = run_program(dumbbell, [*python(WITH_ADDRESS), *command], server=SERVER)
        assert outer.exit_code == 0
        rtts = [min(json.loads(output.read_text())) for output in (one, both)]
        assert rtts[0] >= 30.0
        assert rtts[1] >= 60.0  # never early, however busy the machine
        (run,) = find_runs(out)
        return rtts, run.record.why_invalid or outer.emulated.why_invalid

    if isinstance(rtts := first_valid(nested), str):
        pytest.skip(rtts)
    assert rtts[0] < 40.0
    assert rtts[1] < 75.0
