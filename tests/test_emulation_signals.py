"""Signals and the terminal: what reaches the program, what ends an emulation, and what is kept then."""

import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest
from emulation import bell_file, wait_for

from bentpipe.runs.store import find_runs

#: Says that it is there, and waits; ends with 3 when it is asked to, with 4 on SIGQUIT.
POLITE = "trap 'exit 3' TERM HUP; trap 'exit 4' QUIT; touch ready; while :; do sleep 0.02; done"


@pytest.fixture
def bell(tmp_path):
    return bell_file(tmp_path)


def run(bell, *program, options=(), before=()):
    """`bentpipe run` in a session of its own; the program has said that it is there."""
    command = [*before, sys.executable, "-m", "bentpipe", "run", bell, *options, "--", *program]
    child = subprocess.Popen(
        list(map(str, command)), cwd=bell.parent, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    wait_for(bell.parent / "ready", child)
    return child


@pytest.mark.parametrize(
    ("number", "group", "code"), [(signal.SIGQUIT, True, 4), (signal.SIGHUP, True, 3), (signal.SIGHUP, False, 3)]
)
def test_ctrl_backslash_and_a_hangup_keep_the_run(number, group, code, bell, tmp_path):
    out = tmp_path / "out"
    with run(bell, "sh", "-c", POLITE, options=("-o", out)) as child:
        (os.killpg if group else os.kill)(child.pid, number)
        _, said = child.communicate(timeout=60)
    assert child.returncode == code, said
    (kept,) = find_runs(out)
    assert kept.record["summary"]["emulator"]["relay"] is not None


def test_a_program_that_is_not_wanted_any_more_does_not_begin(bell, tmp_path):
    """Asked to end while its server starts, the program has not begun, and does not."""
    options = ("--listen-within", "60", "--server", f"touch {tmp_path / 'ready'}; exec sleep 60")
    with run(bell, "touch", tmp_path / "began", options=options) as child:
        os.kill(child.pid, signal.SIGTERM)
        _, said = child.communicate(timeout=30)
    assert child.returncode == 128 + signal.SIGTERM, said
    assert not (tmp_path / "began").exists()
    assert "Traceback" not in said


def test_ctrl_backslash_alone_ends_nothing(bell, tmp_path):
    """It is for the program: one that does not hear it goes on."""
    with run(bell, "sh", "-c", "touch ready; sleep 1; exit 5") as child:
        os.kill(child.pid, signal.SIGQUIT)
        assert child.wait(timeout=60) == 5


def test_what_the_caller_ignores_the_program_ignores(bell, tmp_path):
    """As behind nohup: the hangup of the whole group is heard by nobody."""
    with run(bell, "sh", "-c", "touch ready; sleep 1; exit 6", before=("sh", "-c", 'trap "" HUP; exec "$@"', "sh")) as (
        child
    ):
        os.killpg(child.pid, signal.SIGHUP)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 6, said


def ignored_and_blocked(status):
    """Sets of the 31 signals that programs know; glibc's own two (32, 33) depend on who spawned."""
    fields = dict(line.split(":\t") for line in status.splitlines())
    return {name: int(fields[name], 16) & 0x7FFF_FFFF for name in ("SigIgn", "SigBlk")}


def test_the_program_has_the_callers_dispositions(bell, tmp_path):
    """Nothing ignored and nothing blocked that the caller does not: Python itself ignores SIGPIPE and SIGXFSZ."""
    with run(bell, "sh", "-c", "cat /proc/self/status > inside; touch ready") as child:
        assert child.wait(timeout=60) == 0
    outside = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    assert ignored_and_blocked((tmp_path / "inside").read_text()) == ignored_and_blocked(outside)


def test_after_a_shell_the_terminal_is_the_callers_again(bell):
    """A shell with job control makes itself the foreground; what comes after it must be able to read."""
    lines = f'{sys.executable} -m bentpipe shell {bell}; read -r x; echo "<$x:$?>"'
    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"SHELL": "/bin/bash", "HOME": str(bell.parent)}
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
        until(b"a shell behind the path")
        os.write(terminal, b"echo in-$((40 + 2)); exit\n")
        until(b"in-42")
        until(b"packets through the path")
        os.write(terminal, b"foo\n")
        until(b"<foo:0>")
    finally:
        os.close(terminal)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
