"""Signals and the terminal: signals to the program, ends of an emulation, and the stored Run."""

import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest
from emulation import dumbbell_file, wait_for

from bentpipe.runs.store import find_runs

#: Says that it is there, and waits; ends with 3 when it is asked to, with 4 on SIGQUIT.
POLITE = "trap 'exit 3' TERM HUP; trap 'exit 4' QUIT; touch ready; while :; do sleep 0.02; done"


@pytest.fixture
def dumbbell(tmp_path):
    return dumbbell_file(tmp_path)


def run(dumbbell, *program, options=(), before=()):
    """Start `bentpipe run` in its own session and wait until the program has started."""
    command = [*before, sys.executable, "-m", "bentpipe", "run", dumbbell, *options, "--", *program]
    child = subprocess.Popen(
        list(map(str, command)), cwd=dumbbell.parent, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    wait_for(dumbbell.parent / "ready", child)
    return child


@pytest.mark.parametrize(
    ("number", "group", "code"), [(signal.SIGQUIT, True, 4), (signal.SIGHUP, True, 3), (signal.SIGHUP, False, 3)]
)
def test_sigquit_and_sighup_store_the_run(number, group, code, dumbbell, tmp_path):
    out = tmp_path / "out"
    with run(dumbbell, "sh", "-c", POLITE, options=("-o", out)) as child:
        (os.killpg if group else os.kill)(child.pid, number)
        _, output = child.communicate(timeout=60)
    assert child.returncode == code, output
    (kept,) = find_runs(out)
    assert kept.record.summary["emulator"]["relay"] is not None


def test_a_program_stopped_before_its_start_does_not_start(dumbbell, tmp_path):
    """A program stopped while its server starts never starts."""
    options = ("--listen-within", "60", "--server", f"touch {tmp_path / 'ready'}; exec sleep 60")
    with run(dumbbell, "touch", tmp_path / "began", options=options) as child:
        os.kill(child.pid, signal.SIGTERM)
        _, output = child.communicate(timeout=30)
    assert child.returncode == 128 + signal.SIGTERM, output
    assert not (tmp_path / "began").exists()
    assert "Traceback" not in output


def test_sigquit_to_the_emulator_alone_ends_nothing(dumbbell, tmp_path):
    """SIGQUIT is for the program: one that ignores it continues."""
    with run(dumbbell, "sh", "-c", "touch ready; sleep 1; exit 5") as child:
        os.kill(child.pid, signal.SIGQUIT)
        assert child.wait(timeout=60) == 5


def test_signals_ignored_by_the_caller_are_ignored_inside(dumbbell, tmp_path):
    """As behind nohup: SIGHUP to the group has no effect."""
    with run(
        dumbbell, "sh", "-c", "touch ready; sleep 1; exit 6", before=("sh", "-c", 'trap "" HUP; exec "$@"', "sh")
    ) as (child):
        os.killpg(child.pid, signal.SIGHUP)
        _, output = child.communicate(timeout=60)
    assert child.returncode == 6, output


def ignored_and_blocked(status):
    """Return the ignored and blocked ones of signals 1 to 31; glibc's own (32, 33) depend on the spawning process."""
    fields = dict(line.split(":\t") for line in status.splitlines())
    return {name: int(fields[name], 16) & 0x7FFF_FFFF for name in ("SigIgn", "SigBlk")}


def test_the_program_inherits_the_callers_signal_dispositions(dumbbell, tmp_path):
    """Nothing is ignored or blocked that the caller does not, although Python ignores SIGPIPE and SIGXFSZ."""
    with run(dumbbell, "sh", "-c", "cat /proc/self/status > inside; touch ready") as child:
        assert child.wait(timeout=60) == 0
    outside = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    assert ignored_and_blocked((tmp_path / "inside").read_text()) == ignored_and_blocked(outside)


def test_the_callers_foreground_group_is_restored_after_a_shell(dumbbell):
    """A shell with job control takes the foreground; the caller must be able to read afterwards."""
    lines = f'{sys.executable} -m bentpipe shell {dumbbell}; read -r x; echo "<$x:$?>"'
    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"SHELL": "/bin/bash", "HOME": str(dumbbell.parent)}
        os.execvp("bash", ["bash", "-c", lines])
    seen = b""

    def until(mark):
        nonlocal seen
        deadline = time.monotonic() + 60
        while mark not in seen:
            assert time.monotonic() < deadline, seen
            if select.select([terminal], [], [], 0.2)[0]:
                seen += os.read(terminal, 4096)

    try:
        until(b"shell on the emulated path")
        os.write(terminal, b"echo in-$((40 + 2)); exit\n")
        until(b"in-42")
        until(b"packets delivered")
        os.write(terminal, b"foo\n")
        until(b"<foo:0>")
    finally:
        os.close(terminal)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
