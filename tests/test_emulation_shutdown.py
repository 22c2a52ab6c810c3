"""Ends of an emulation: by signal, by interrupt, by removal of its device; and that nothing remains."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from emulation import SERVER, cannot, python, wait_for

from bentpipe.errors import UserError
from bentpipe.execution.emulation.engine import emulate
from bentpipe.execution.emulation.spec import Spec
from bentpipe.execution.program import run_program
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.store import find_runs
from bentpipe.validation.emulator.faults import processes_with

pytestmark = pytest.mark.usefixtures("emulation")


def test_ctrl_c_ends_the_program_before_the_server(dumbbell, tmp_path):
    """On a terminal, Ctrl-C goes to the foreground group. The server stays until the program has finished."""
    file = tmp_path / "dumbbell.parquet"
    write_profile(dumbbell, file)
    ask = (
        "import signal, socket, sys, time\n"
        "def finish(*_):\n"
        "    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(5.0)\n"
        "    time.sleep(0.3)\n"
        "    s.sendto(b'bye', (socket.getaddrinfo('server', 7, s.family, s.type)[0][4]))\n"
        "    open('answer', 'wb').write(s.recv(9)); sys.exit(5)\n"
        "signal.signal(signal.SIGINT, finish)\n"
        "open('ready', 'w').close()\n"
        "time.sleep(60)"
    )
    command = [sys.executable, "-m", "bentpipe", "run", str(file), "--server", SERVER, "--", *python(ask)]
    with subprocess.Popen(command, cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL) as child:
        wait_for(tmp_path / "ready", child)
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(timeout=60) == 5
    assert (tmp_path / "answer").read_bytes() == b"bye"


def test_removing_the_paths_device_ends_the_program(dumbbell):
    """A program that removes its own device must not wait for ever."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        cannot("needs root and `ip`")
    began = time.monotonic()
    with pytest.raises(UserError, match=r"the path.s device `bentpipe` in the client.s namespace is gone, or down"):
        run_program(dumbbell, ["sh", "-c", "ip link del bentpipe; exec sleep 60"])
    assert time.monotonic() - began < 30.0


def test_sigterm_to_the_group_stops_the_program_and_stores_the_run(dumbbell, tmp_path):
    file, out = tmp_path / "dumbbell.parquet", tmp_path / "out"
    write_profile(dumbbell, file)
    polite = "trap 'exit 3' TERM; touch ready; while :; do sleep 0.02; done"
    command = [sys.executable, "-m", "bentpipe", "run", str(file), "-o", str(out), "--", "sh", "-c", polite]
    with subprocess.Popen(command, cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL) as child:
        wait_for(tmp_path / "ready", child)
        os.killpg(child.pid, signal.SIGTERM)
        assert child.wait(timeout=60) == 3
    (run,) = find_runs(out)
    assert run.record.summary["emulator"]["relay"] is not None


def test_a_program_that_ignores_sigterm_is_killed(dumbbell):
    short = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 1.0, start_unix_ns=0, name="short")
    stubborn = python("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)")
    workload = {"program": {"command": stubborn, "server": None, "server_log": None}}
    emulated = emulate(short, Spec(workload=workload, at_end="stop", offset_s=0.0, grace_s=0.3))
    assert emulated.exit_code == 124
    assert emulated.done["ending"] is None


def test_background_processes_end_with_the_program(dumbbell, tmp_path):
    mark = f"bentpipe-test-{os.getpid()}-{random.random()}"
    started = tmp_path / "started"
    code = f"import os, time; open({str(started)!r}, 'w').write(str(os.getsid(0) == os.getpid())); time.sleep(60)"
    daemon = f'(setsid {sys.executable} -c "{code}" {mark} &); until [ -s {started} ]; do sleep 0.02; done'
    assert run_program(dumbbell, ["sh", "-c", daemon]).exit_code == 0
    assert started.read_text() == "True"  # it was there, in a session of its own
    assert not processes_with(mark)


def test_the_program_shares_the_folder_for_temporary_files(dumbbell, tmp_path):
    before = set(Path(tempfile.gettempdir()).glob("bentpipe-*"))
    assert run_program(dumbbell, python(f"open({str(tmp_path / 'here')!r}, 'w').close()")).exit_code == 0
    assert (tmp_path / "here").exists()
    assert set(Path(tempfile.gettempdir()).glob("bentpipe-*")) <= before
