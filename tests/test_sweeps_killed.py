"""Processes of a cluster that are killed (SIGKILL) in the middle of a sweep: workers, and the scheduler."""

import json
import signal
import subprocess
import sys
import warnings

import pytest
from killed_workers import FATAL, cluster, measured_or_killed, wait_for
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.execution import cluster as clustering
from bentpipe.execution.job import race_jobs
from bentpipe.execution.sinks.table import SweepWarning
from bentpipe.execution.sweeps.sweep import run_sweep
from bentpipe.execution.sweeps.table import NAME, read_results
from bentpipe.plots import style
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile

pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

COMMAND = [sys.executable, "-c", "from bentpipe.cli.main import app; app()"]


def table(run):
    return [(each.record, each.measures) for each in run.whole()]


def test_a_killed_worker_changes_no_result(tmp_path, monkeypatch):
    monkeypatch.setattr(clustering, "CHECK_S", 0.0)
    path = preset_profile("dumbbell:rate=5mbit,rtt=30ms,queue=1bdp,loss=0.001", duration_s=6)
    jobs = race_jobs([path], ["cubic", "bbr2", "cubic+bbr"], duration_s=4, seeds=4, measure=measured_or_killed)
    here = run_sweep(jobs, out=tmp_path / "here")
    fatal = tmp_path / "fatal"
    fatal.touch()
    with cluster(tmp_path / "dask", 2, **{FATAL: str(fatal)}) as dask:
        dask.until_all_are_there()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", SweepWarning)
            there = run_sweep(jobs, out=tmp_path / "there", on=dask.address)
        codes = [worker.poll() for worker in dask.workers]
    assert sorted(codes, key=str) == [-signal.SIGKILL, None]
    messages = [str(one.message) for one in caught if issubclass(one.category, SweepWarning)]
    assert len(messages) == 1
    assert messages[0].endswith("is gone; 1 left, they do its Runs")
    assert table(there) == table(here)
    assert len(read_results(tmp_path / "there")) == len(jobs)


def test_a_killed_scheduler_is_one_line_and_the_next_call_runs_the_rest(tmp_path, monkeypatch):
    monkeypatch.setattr(style, "save", lambda figure, path: None)
    dumbbell, out = tmp_path / "dumbbell.parquet", tmp_path / "out"
    write_profile(preset_profile("dumbbell:rate=20mbit,rtt=30ms,loss=0.001", 5.0, name="dumbbell"), dumbbell)
    arguments = ["tune", str(dumbbell), "--cc", "bbr2", "--grid", "loss_thresh=0.02,0.08", "--seeds", "4", "--json"]

    def results():
        return (out / NAME).read_bytes().splitlines() if (out / NAME).exists() else []

    with cluster(tmp_path / "dask", 1) as dask:
        dask.until_all_are_there()
        sweep = subprocess.Popen(
            [*COMMAND, *arguments, "-o", str(out), "--on", dask.address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_for(lambda: len(results()) >= 3 or None, sweep)  # its head, and two Runs
            dask.scheduler.kill()
            output, errors = sweep.communicate(timeout=60)
        finally:
            sweep.kill()
            sweep.wait()
    kept = results()
    assert (sweep.returncode, output) == (1, "")
    error = json.loads(errors)["error"]
    assert (error["code"], error["message"]) == (
        "cluster_gone",
        f"{dask.address}: the scheduler is gone; {len(kept) - 1} of 12 Runs are stored in {out}; "
        "the same command runs the rest",
    )

    rest = CliRunner().invoke(app, [*arguments, "-o", str(out)])  # here, since that scheduler is gone
    clean = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "clean")])
    assert (rest.exit_code, clean.exit_code) == (0, 0), rest.output
    assert results()[: len(kept)] == kept  # nothing of it was run again
    one, other = (json.loads(done.stdout) for done in (rest, clean))
    assert one.pop("figure") != other.pop("figure")
    assert one == other
    by_key = [{line["key"]: line for line in read_results(folder)} for folder in (out, tmp_path / "clean")]
    assert by_key[0] == by_key[1]
