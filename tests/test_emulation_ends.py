"""How an emulation ends: asked, interrupted, its path taken away; and that nothing is left of it."""

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
from bentpipe.execution.emulation.engine import Spec, emulate
from bentpipe.execution.program import run_program
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.store import find_runs
from bentpipe.validation.emulator.faults import processes_with

pytestmark = pytest.mark.usefixtures("emulation")


def test_ctrl_c_ends_the_program_before_the_server(bell, tmp_path):
    """On a terminal it goes to the foreground group. The program, which finishes then, still has its server."""
    file = tmp_path / "bell.parquet"
    write_profile(bell, file)
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


def test_a_path_that_is_taken_away_ends_the_program(bell):
    """The program may do what it likes to its network; it must not wait for ever then."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        cannot("needs root and `ip`")
    began = time.monotonic()
    with pytest.raises(UserError, match=r"the path.s device `bentpipe` in the client.s namespace is gone, or down"):
        run_program(bell, ["sh", "-c", "ip link del bentpipe; exec sleep 60"])
    assert time.monotonic() - began < 30.0


def test_sigterm_to_the_whole_group_lets_the_program_end_and_keeps_the_run(bell, tmp_path):
    file, out = tmp_path / "bell.parquet", tmp_path / "out"
    write_profile(bell, file)
    polite = "trap 'exit 3' TERM; touch ready; while :; do sleep 0.02; done"
    command = [sys.executable, "-m", "bentpipe", "run", str(file), "-o", str(out), "--", "sh", "-c", polite]
    with subprocess.Popen(command, cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL) as child:
        wait_for(tmp_path / "ready", child)
        os.killpg(child.pid, signal.SIGTERM)
        assert child.wait(timeout=60) == 3
    (run,) = find_runs(out)
    assert run.record["summary"]["emulator"]["relay"] is not None


def test_a_program_that_ignores_being_asked_is_ended(bell):
    short = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 1.0, start_unix_ns=0, name="short")
    stubborn = python("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)")
    workload = {"program": {"command": stubborn, "server": None, "server_log": None}}
    emulated = emulate(short, Spec(workload=workload, at_end="stop", offset_s=0.0, grace_s=0.3))
    assert emulated.exit_code == 124
    assert emulated.done["ending"] is None


def test_what_a_program_leaves_behind_ends_with_it(bell, tmp_path):
    mark = f"bentpipe-test-{os.getpid()}-{random.random()}"
    started = tmp_path / "started"
    code = f"import os, time; open({str(started)!r}, 'w').write(str(os.getsid(0) == os.getpid())); time.sleep(60)"
    daemon = f'(setsid {sys.executable} -c "{code}" {mark} &); until [ -s {started} ]; do sleep 0.02; done'
    assert run_program(bell, ["sh", "-c", daemon]).exit_code == 0
    assert started.read_text() == "True"  # it was there, in a session of its own
    assert not processes_with(mark)


def test_the_folder_for_temporary_files_is_the_programs_too(bell, tmp_path):
    before = set(Path(tempfile.gettempdir()).glob("bentpipe-*"))
    assert run_program(bell, python(f"open({str(tmp_path / 'here')!r}, 'w').close()")).exit_code == 0
    assert (tmp_path / "here").exists()
    assert set(Path(tempfile.gettempdir()).glob("bentpipe-*")) <= before
