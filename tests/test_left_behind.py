"""What a signal leaves behind of a study's testbed and of a check's PostgreSQL: nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bentpipe.validation import postgresql

STUDY = """
import sys
from bentpipe.profiles.presets import preset_profile
from bentpipe.studies import t3p_trigger_testbed
sys.executable = sys.argv[1]
path = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 60.0, start_unix_ns=0, name="dumbbell")
with t3p_trigger_testbed._testbed({"a": path, "b": path}):
    pass
"""
LAPTOP = """#!/bin/sh
trap 'echo ended > {folder}/ended; exit 0' INT
echo $$ > {folder}/pid
while :; do sleep 0.02; done
"""
DATABASE = """
import time
from bentpipe.validation import postgresql
with postgresql.server() as server:
    print(server.pid_file.read_text().split()[0], server.folder, flush=True)
    time.sleep(600)
"""


def until(condition, limit_s=60.0):
    end_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_study_that_is_ended_ends_its_testbed(tmp_path, number):
    laptop, pid_file = tmp_path / "laptop", tmp_path / "pid"
    laptop.write_text(LAPTOP.format(folder=tmp_path))
    laptop.chmod(0o755)
    with subprocess.Popen([sys.executable, "-c", STUDY, str(laptop)], stderr=subprocess.PIPE, text=True) as study:
        until(lambda: study.poll() is not None or (pid_file.exists() and pid_file.read_text()))
        study.send_signal(number)
        _, errors = study.communicate(timeout=60)
    assert study.returncode != 0
    assert "KeyboardInterrupt" in errors
    assert is_gone(int(pid_file.read_text()))
    assert (tmp_path / "ended").read_text() == "ended\n"


def test_a_database_ends_with_the_process_that_started_it():
    if postgresql.programs() is None:
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    with subprocess.Popen([sys.executable, "-c", DATABASE], stdout=subprocess.PIPE, text=True) as check:
        assert check.stdout is not None
        pid, folder = check.stdout.readline().split()
        assert not is_gone(int(pid))
        check.kill()
    until(lambda: is_gone(int(pid)))
    subprocess.run(["rm", "-rf", folder], check=True)
