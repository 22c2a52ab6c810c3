"""Races that are interrupted or killed."""

import signal
import subprocess
import sys
import textwrap
import time

import pytest
from race_profiles import RACE, files

from bentpipe.execution.engine import RunsInterruptedError
from bentpipe.execution.interrupts import ctrl_c_deferred, ctrl_c_ignored
from bentpipe.execution.racing import race
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs import store
from bentpipe.runs.store import find_runs

SWEEP = textwrap.dedent("""
    import sys
    from pathlib import Path
    from bentpipe.profiles import preset_profile
    from bentpipe.execution.sweeps import race_jobs, run_sweep
    path = preset_profile("dumbbell:rate=50mbit", 30.0, start_unix_ns=0, name="dumbbell")
    jobs = race_jobs([path], ["reno", "cubic"], duration_s=30.0, seeds=100)
    try:
        run_sweep(jobs, out=Path(sys.argv[1]), threads=2)
    except Exception as error:
        print(error)
""")


def test_ctrl_c_keeps_finished_runs_and_the_same_command_continues(tmp_path):
    out = tmp_path / "out"
    child = subprocess.Popen(
        [sys.executable, "-c", RACE, str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not list(out.glob("race-down/*/*/*/run.json")):
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    output, errors = child.communicate(timeout=60)
    assert errors == ""
    kept = find_runs(out)
    assert 0 < len(kept) < 1200
    assert output.strip().startswith(f"interrupted: {len(kept)} of 1200 Runs are stored")
    assert not list(out.glob("race-down/*/*/.partial-*"))
    for run in kept:
        assert run.samples().height == 300
    path = preset_profile("dumbbell:rate=50mbit", 30.0, start_unix_ns=0, name="dumbbell")
    assert race([path], [kept[0].scheme], out=out, duration_s=30.0, seeds=1).resumed == any(
        run.seed == 0 for run in kept
    )


def test_ctrl_c_raised_in_a_worker_thread_stops_the_race(tmp_path, monkeypatch):
    path = preset_profile("dumbbell:rate=10mbit", 3.0, start_unix_ns=0, name="dumbbell")
    write, calls = store.write_run, []

    def struck(folder, *rest):
        calls.append(folder)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return write(folder, *rest)

    monkeypatch.setattr(store, "write_run", struck)
    with pytest.raises(RunsInterruptedError, match="1 of 6 Runs are stored"):
        race([path], ["reno"], out=tmp_path, duration_s=3.0, seeds=6, jobs=1)
    assert len(calls) == 2


def test_a_second_ctrl_c_is_ignored_while_the_threads_stop():
    before = signal.getsignal(signal.SIGINT)
    with ctrl_c_ignored():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_deferred_ctrl_c_is_raised_afterwards():
    before, reached = signal.getsignal(signal.SIGINT), []

    def deferring():
        with ctrl_c_deferred():
            signal.raise_signal(signal.SIGINT)
            reached.append(True)

    with pytest.raises(KeyboardInterrupt):
        deferring()
    assert reached
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("pool", ["race", "sweep"])
def test_ctrl_c_while_locks_of_futures_are_held_ends_the_race(pool, tmp_path):
    """The thread that delivers a Run would wait for the lock forever."""
    struck = """
        from concurrent.futures import _base
        import signal
        enter = _base._AcquireFutures.__enter__

        def struck(self):
            enter(self)
            signal.raise_signal(signal.SIGINT)

        _base._AcquireFutures.__enter__ = struck
    """
    code = textwrap.dedent(struck) + (RACE if pool == "race" else SWEEP)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    assert done.stdout.startswith("interrupted: ")


FRESH = textwrap.dedent("""
    import os, signal, sys
    from pathlib import Path
    from bentpipe.execution.racing import race
    from bentpipe.profiles import preset_profile
    rename, after = Path.rename, int(sys.argv[2])
    def renamed(self, target):
        global after
        after -= 1
        if after < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(self, target)
    path = preset_profile("dumbbell:rate=10mbit", 4.0, start_unix_ns=0, name="dumbbell")
    race([path], ["reno"], out=Path(sys.argv[1]), duration_s=2.0)
    Path.rename = renamed
    race([path], ["reno"], out=Path(sys.argv[1]), duration_s=2.0, fresh=True)
""")


@pytest.mark.parametrize("renames", [0, 1])
def test_a_fresh_race_killed_while_it_replaces_a_run_loses_none(tmp_path, renames):
    out = tmp_path / "out"
    killed = subprocess.run([sys.executable, "-c", FRESH, str(out), str(renames)], check=False)
    assert killed.returncode == -signal.SIGKILL
    path = preset_profile("dumbbell:rate=10mbit", 4.0, start_unix_ns=0, name="dumbbell")
    assert race([path], ["reno"], out=out, duration_s=2.0).resumed == 1
    assert not list(out.glob("race-down/*/*/.partial-*"))


KILLED = textwrap.dedent("""
    import os, signal, sys
    from pathlib import Path
    from bentpipe.profiles import preset_profile
    from bentpipe.execution.racing import race
    from bentpipe.runs import store
    rename, moved = os.rename, []

    def killed(source, target):
        rename(source, target)
        moved.append(source)
        if len(moved) == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)

    os.rename = killed
    path = preset_profile("dumbbell:rate=10mbit", 4.0, start_unix_ns=0, name="dumbbell")
    race([path], ["reno"], out=Path(sys.argv[1]), duration_s=2.0, fresh=True)
""")


@pytest.mark.parametrize("strike", [1, 2])
def test_a_killed_fresh_race_leaves_nothing_behind_after_the_next(tmp_path, strike):
    """Killed while the earlier Run is out of its place, or while it is being removed."""
    path = preset_profile("dumbbell:rate=10mbit", 4.0, start_unix_ns=0, name="dumbbell")
    race([path], ["reno"], out=tmp_path, duration_s=2.0)
    before = files(tmp_path)
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(strike)], check=False)
    assert done.returncode == -signal.SIGKILL
    race([path], ["reno"], out=tmp_path, duration_s=2.0)
    assert files(tmp_path) == before
