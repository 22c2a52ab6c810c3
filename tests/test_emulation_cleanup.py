"""Files that an emulation stores to be repeatable, and clean-up of the rest."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from emulation import require_emulation

from bentpipe.errors import UserError
from bentpipe.execution.program import run_program
from bentpipe.profiles.parquet import read_profile, write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.path import raced_path
from bentpipe.validation.emulator.faults import processes_with


@pytest.fixture(scope="module", autouse=True)
def _emulation():
    require_emulation()


def test_an_existing_folder_remains_after_an_error(dumbbell, tmp_path):
    with pytest.raises(UserError, match="no-such-program"):
        run_program(dumbbell, ["no-such-program"], out=tmp_path)
    assert tmp_path.is_dir()
    assert not list(tmp_path.iterdir())


def test_the_profile_is_stored_to_repeat_the_run(dumbbell, tmp_path):
    out = tmp_path / "out"
    run = run_program(dumbbell, ["true"], out=out, seed=3).run
    file = out / "profiles" / "dumbbell.parquet"
    assert read_profile(file).content_hash() == run.record.profiles[0].base_hash == dumbbell.content_hash()
    again = run_program(read_profile(file), ["true"], out=out, seed=3).run
    assert again.record.profiles == run.record.profiles
    assert raced_path(again).duration_s == again.duration_s
    # Another path of that name stands beside it, under its own.
    other = preset_profile("dumbbell:rate=20mbit,rtt=30ms", 60.0, start_unix_ns=0, name="dumbbell")
    run = run_program(other, ["true"], out=out).run
    assert run.label == "dumbbell~2"
    assert read_profile(out / "profiles" / "dumbbell~2.parquet").content_hash() == other.content_hash()
    assert read_profile(file).content_hash() == dumbbell.content_hash()
    assert raced_path(run) is not None


def test_a_run_of_several_passages_cannot_be_replayed_as_one_path(tmp_path):
    short = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 1.0, start_unix_ns=0, name="short")
    assert raced_path(run_program(short, ["sleep", "1.5"], out=tmp_path / "out", offset_s=0.0).run) is None


def test_a_killed_validation_leaves_no_run(dumbbell, tmp_path):
    """The program waits for the validation, not for a fixed time."""
    file = tmp_path / "dumbbell.parquet"
    write_profile(dumbbell, file)
    code = (
        "import sys; from pathlib import Path; from bentpipe.validation.emulator.faults import kill_once\n"
        "kill_once('parent', Path(sys.argv[1]), 600.0, sys.argv[2])"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(file), str(tmp_path)]) as validation:
        mark = f"bentpipe-{validation.pid}-parent-600.0"
        programs = []
        while not any(is_program(pid) for pid in programs):
            assert validation.poll() is None
            time.sleep(0.02)
            programs = processes_with(mark)
        validation.kill()
    deadline = time.monotonic() + 20.0
    while processes_with(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not processes_with(mark)


def is_program(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sh\0-c")
