"""Races on this kernel: their Runs, and races that cannot run."""

import os
import signal
import subprocess
import sys
import time

import pytest
from disturbance import first_valid
from emulation import wait_for

from bentpipe.errors import UserError
from bentpipe.execution import kernel
from bentpipe.execution.racing import race
from bentpipe.profiles.parquet import write_profile
from bentpipe.report.build import write_report
from bentpipe.runs.store import find_runs

pytestmark = pytest.mark.usefixtures("emulation")


@pytest.mark.filterwarnings("ignore::bentpipe.execution.sinks.folder.KernelWarning")  # what a busy machine makes of it
def test_a_race_on_the_kernel_stores_the_simulators_tables(dumbbell, tmp_path):
    out = tmp_path / "out"
    options = {"duration_s": 4.0, "phase_s": 0.0}

    def raced():
        """Over what is kept: a Run that is not valid is made again, up to three times by the race itself."""
        (run,) = race([dumbbell], ["cubic"], on_kernel=True, out=out, **options).runs
        assert run.record.valid == (run.record.why_invalid is None)
        return run, run.record.why_invalid

    (simulated,) = race([dumbbell], ["cubic"], out=tmp_path / "simulated", **options).runs
    valid = first_valid(raced, attempts=2)
    with pytest.raises(UserError, match="holds emulated Runs"):
        race([dumbbell], ["cubic"], out=out, **options)
    (real,) = find_runs(out)
    assert real.record.world == "emulated"
    assert simulated.record.world == "simulated"
    for table in ("samples", "links", "events"):
        assert getattr(real, table)().schema == getattr(simulated, table)().schema
    assert set(real.record.summary["flows"][0]) == set(simulated.record.summary["flows"][0])
    flow = real.flows[0]
    assert flow["controller"] == "cubic"
    assert 0 < flow["goodput_bps"] < 1e7
    page = write_report(out).read_text()
    assert "real kernel in real time" in page
    assert "bit for bit" not in page
    if isinstance(valid, str):
        pytest.skip(valid)
    assert flow["goodput_bps"] == pytest.approx(simulated.flows[0]["goodput_bps"], rel=0.15)
    assert race([dumbbell], ["cubic"], on_kernel=True, out=out, **options).resumed == 1


@pytest.mark.parametrize("after_s", [0.0, 0.5, 4.0])
def test_ctrl_c_ends_a_race_whether_in_the_trial_before_it_or_in_a_run(after_s, dumbbell, tmp_path):
    file, out = tmp_path / "dumbbell.parquet", tmp_path / "out"
    write_profile(dumbbell, file)
    requested = ["race", file, "--cc", "reno,cubic", "--on-kernel", "--duration", 30, "-o", out]
    command = [sys.executable, "-m", "bentpipe", *map(str, requested)]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True) as child:
        wait_for(out / "race.json", child)
        time.sleep(after_s)
        os.killpg(child.pid, signal.SIGINT)
        try:
            _, output = child.communicate(timeout=60)
        finally:
            child.kill()  # one that hangs would be waited for, for ever
    assert child.returncode == 130, output
    lines = [line for line in output.splitlines() if not line.startswith("warning: this machine is too late now")]
    assert lines == [f"error: interrupted: 0 of 2 Runs are stored in {out}; the same command runs the rest"]


def test_a_controller_missing_in_the_kernel_is_reported(dumbbell, tmp_path, monkeypatch):
    available = tmp_path / "available"
    available.write_text("reno cubic\n")
    monkeypatch.setattr(kernel, "AVAILABLE", available)
    monkeypatch.setattr(kernel.controllers, "available", lambda: ["bbr2"])
    for lacking, then in (
        ("bbr2", r"load it as root \(`bentpipe kernel load bbr2`\), or leave it out"),
        ("bbr", r"load its module as root \(`modprobe tcp_bbr`\), or leave it out"),
        ("bbr3", "Linux ships none of that name: race it in the simulator"),
    ):
        with pytest.raises(UserError, match=rf"this kernel has no {lacking} \(it has reno, cubic\); {then}"):
            race([dumbbell], ["reno", "cubic", lacking], on_kernel=True, out=tmp_path / "out", duration_s=1.0)
    assert not (tmp_path / "out").exists()
