"""Sweeps: the same Runs as a race's, kept by key, resumed, and the same wherever they are run."""

import json
import os
import warnings
from concurrent.futures import CancelledError
from dataclasses import replace
from types import SimpleNamespace

import polars as pl
import pytest

from bentpipe.errors import StoreError, UserError
from bentpipe.execution import cluster as clustering
from bentpipe.execution.cluster import ClusterError
from bentpipe.execution.engine import RunsInterruptedError
from bentpipe.execution.job import experiment_jobs, race_jobs
from bentpipe.execution.pools import Finished, Tick
from bentpipe.execution.racing import race
from bentpipe.execution.sinks.table import SweepWarning
from bentpipe.execution.sweeps import table as tables
from bentpipe.execution.sweeps.sweep import run_sweep
from bentpipe.execution.sweeps.table import DamagedResultWarning, read_results
from bentpipe.profiles.measured.make import profile_from_pings
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.summary import summarise

SCHEMES = ["cubic", "bbr2", "cubic+bbr"]


def measured(outcome):
    return {"last_bytes": int(outcome.samples()["goodput_bytes"][-1]), "drops": outcome.links().height}


def not_plain(outcome):
    return {"ratio": float("nan")}


@pytest.fixture(scope="module")
def path():
    return preset_profile("dumbbell:rate=5mbit,rtt=30ms,queue=1bdp,loss=0.001", duration_s=6)


@pytest.fixture(scope="module")
def jobs(path):
    return race_jobs([path], SCHEMES, duration_s=4, seeds=2, measure=measured)


@pytest.fixture(scope="module")
def swept(jobs, tmp_path_factory):
    return run_sweep(jobs, out=tmp_path_factory.mktemp("sweep"))


def records(result):
    return [(run.record, run.measures) for run in result.whole()]


def test_a_sweep_has_the_runs_of_a_race(path, swept, tmp_path):
    raced = race([path], SCHEMES, duration_s=4, seeds=2, out=tmp_path)
    without_files = [run.record.replace(files={}) for run in raced.runs]
    assert [run.record for run in swept.whole()] == without_files
    assert summarise(swept.whole()) == summarise(raced.runs)
    last = raced.runs[0].samples()["goodput_bytes"][-1]
    assert swept.runs[0].measures == {"last_bytes": last, "drops": raced.runs[0].links().height}


def test_nothing_is_run_twice_and_an_extended_sweep_runs_only_new_jobs(path, jobs, tmp_path):
    first = run_sweep(jobs[:2], out=tmp_path, threads=1)
    table = first.table.read_bytes()
    again = run_sweep(jobs[:2] + jobs[:1], out=tmp_path)
    assert again.resumed == 3
    assert first.table.read_bytes() == table
    assert records(again)[:2] == records(first)
    wider = run_sweep(jobs[:3], out=tmp_path)
    assert wider.resumed == 2
    assert wider.table.read_bytes().startswith(table)
    assert len(read_results(tmp_path)) == 3


def test_the_number_of_threads_changes_nothing(jobs, swept, tmp_path):
    assert records(run_sweep(jobs, out=tmp_path, threads=3)) == records(swept)


def test_a_key_covers_everything_that_a_result_depends_on(path, jobs):
    other = race_jobs([path], SCHEMES, duration_s=4, seeds=2, phase_s=1.0, measure=measured)
    unmeasured = race_jobs([path], SCHEMES, duration_s=4, seeds=2)
    elsewhere = preset_profile("dumbbell:rate=5mbit,rtt=31ms,queue=1bdp,loss=0.001", duration_s=6)
    on_it = race_jobs([elsewhere], SCHEMES, duration_s=4, seeds=2, measure=measured)
    keys = {job.key for job in [*jobs, *other, *unmeasured, *on_it]}
    assert len(keys) == 4 * len(jobs)


def test_a_measure_must_return_plain_data_and_be_importable(path, tmp_path):
    with pytest.warns(SweepWarning, match=r"cubic, seed 0, on dumbbell.*: the measure returned no plain data"):
        result = run_sweep(race_jobs([path], ["cubic"], duration_s=1, measure=not_plain), out=tmp_path)
    assert result.runs == (None,)
    with pytest.raises(UserError, match="cannot be imported by another process"):
        run_sweep(race_jobs([path], ["cubic"], duration_s=1, measure=lambda outcome: {}), out=tmp_path)


def test_a_swept_run_has_no_tables(swept):
    with pytest.raises(UserError, match=r"stores no samples of its Runs; expected values of a `measure=` function"):
        swept.runs[0].samples()


def test_ctrl_c_keeps_finished_results_and_the_same_command_continues(jobs, swept, tmp_path):
    def stop_after_two(progress):
        if progress.done >= 2:
            raise KeyboardInterrupt  # as the signal's handler does, here, in the main thread

    with pytest.raises(RunsInterruptedError, match=r"interrupted: [2-5] of 6 Runs are stored") as stopped:
        run_sweep(jobs, out=tmp_path, threads=1, on_progress=stop_after_two)
    rest = run_sweep(jobs, out=tmp_path)
    assert rest.resumed == stopped.value.stored
    assert records(rest) == records(swept)


def test_a_torn_last_line_is_cut_off_and_a_damaged_one_is_run_again(jobs, swept, tmp_path):
    lines = swept.table.read_bytes().splitlines(keepends=True)
    table = tmp_path / "results.jsonl"
    table.write_bytes(b"".join(lines[:3]) + b'{"key": "x"}\n' + lines[4][: len(lines[4]) // 2])
    with pytest.warns(DamagedResultWarning, match=r"results.jsonl:4: a damaged line is left out"):
        resumed = run_sweep(jobs, out=tmp_path)
    assert resumed.resumed == 2
    assert records(resumed) == records(swept)


def test_a_folder_of_something_else_a_newer_table_and_a_second_sweep_are_refused(jobs, tmp_path):
    table = tmp_path / "results.jsonl"
    for text in ("hello\n", "[1]\n", '{"bentpipe.sweep": "x"}\n'):
        table.write_text(text)
        with pytest.raises(UserError, match="is not a sweep's table"):
            run_sweep(jobs, out=tmp_path)
        with pytest.raises(UserError, match=r"is not a sweep's table|damaged"):
            read_results(tmp_path)
    table.write_text('{"bentpipe.sweep": 99}\n')
    with pytest.raises(UserError, match="format 99; expected at most 1"):
        run_sweep(jobs, out=tmp_path)
    table.unlink()
    with tables.ResultsTable(tmp_path), pytest.raises(UserError, match="another sweep is writing there"):
        run_sweep(jobs, out=tmp_path)
    with pytest.raises(UserError, match="jobs: none given"):
        run_sweep([], out=tmp_path)
    with pytest.raises(UserError, match="threads: 0; expected at least 1"):
        run_sweep(jobs, out=tmp_path, threads=0)


def test_a_full_disk_keeps_finished_results(jobs, tmp_path, monkeypatch):
    real, taken = os.write, []

    def full(descriptor, data):
        if data.startswith(b'{"key"'):
            taken.append(data)
            if len(taken) == 2:
                real(descriptor, data[:10])
                raise OSError(28, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(tables.os, "write", full)
    with pytest.raises(StoreError, match=r"the disk is full .*; 1 of 6 Runs are stored in .*the same command runs"):
        run_sweep(jobs, out=tmp_path, threads=1)
    assert len(read_results(tmp_path)) == 1


def test_progress_goes_up_to_one_with_an_estimate_of_the_time_left(jobs, tmp_path):
    reports = []
    run_sweep(jobs, out=tmp_path, threads=1, on_progress=reports.append)
    shares = [each.share for each in reports]
    assert shares[-1] == pytest.approx(1.0)
    assert (reports[-1].done, reports[-1].total, reports[-1].left_s) == (6, 6, pytest.approx(0.0))
    assert all(0.0 <= share <= 1.0 for share in shares)
    assert any(each.left_s is not None and each.left_s > 0 for each in reports)


def test_a_run_that_fails_does_not_stop_the_others(path, jobs, tmp_path):
    experiment = jobs[0].work.experiment
    flow = experiment.flows[0].replace(controller="nobody")
    bad = replace(jobs[0], work=replace(jobs[0].work, experiment=experiment.replace(flows=(flow,))))
    with pytest.warns(SweepWarning, match="unknown congestion controller `nobody`"):
        result = run_sweep([bad, jobs[1]], out=tmp_path)
    assert result.runs[0] is None
    assert result.runs[1] is not None
    assert list(result.failed) == [0]
    with pytest.raises(UserError, match="1 Run failed; the first: cubic, seed 0"):
        result.whole()


def test_an_experiment_needs_a_profile_for_each_role(path, jobs):
    with pytest.raises(UserError, match="2 Profiles; expected one for each of 1"):
        experiment_jobs(jobs[0].work.experiment, [path, path])
    (first, second) = experiment_jobs(jobs[0].work.experiment, [path], seeds=2, measure=measured)
    assert first.key == jobs[0].key
    assert second.work.seed == 1


@pytest.fixture
def dask():
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp", host="127.0.0.1"
        ) as cluster:
            yield cluster


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_equal_results_and_reports_lost_workers(dask, jobs, swept, tmp_path, monkeypatch):
    address = dask.scheduler_address
    assert records(run_sweep(jobs, out=tmp_path / "a", on=address)) == records(swept)
    monkeypatch.setattr(clustering, "NO_WORKER_S", 0.5)
    monkeypatch.setattr(clustering, "CHECK_S", 0.05)

    def away(progress):
        if progress.done == 1:
            dask.scale(0)

    jobs_of_minutes = race_jobs([preset_profile("dumbbell", duration_s=60)], SCHEMES, seeds=2)
    with pytest.raises(ClusterError, match=r"no worker for 0.5 s .*; [0-6] of 7 Runs are stored in"):
        run_sweep(jobs[:1] + jobs_of_minutes, out=tmp_path / "b", on=address, on_progress=away)
    monkeypatch.setattr(clustering, "NO_WORKER_S", 60.0)
    dask.scale(1)
    rest = run_sweep(jobs, out=tmp_path / "b", on=address)
    assert records(rest) == records(swept)


class FakeFuture:
    """A future whose result goes with its worker `lost` times before it is fetched."""

    key = "bentpipe-run-x"

    def __init__(self, statuses, results):
        self.statuses, self.results, self.callbacks = list(statuses), list(results), 0

    @property
    def status(self):
        return self.statuses[0]

    def result(self, timeout):
        outcome = self.results.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def add_done_callback(self, _):
        self.callbacks += 1


def fake_cluster(jobs, future, status="running"):
    pytest.importorskip("distributed")
    cluster = clustering._Cluster(SimpleNamespace(status=status), "tcp://there:8786", jobs)
    cluster._out[future.key] = (0, future)
    return cluster


def test_a_result_lost_with_its_worker_is_awaited_again(jobs):
    future = FakeFuture(["finished"], [TimeoutError(), "line"])
    cluster = fake_cluster(jobs, future)
    assert cluster._event(future) == Tick()
    assert future.callbacks == 1
    assert cluster._event(future) == Finished(0, "line")
    assert not cluster._out
    lost = FakeFuture(["lost"], [])
    cluster = fake_cluster(jobs, lost)
    assert cluster._event(lost) == Tick()
    assert lost.key in cluster._out


@pytest.mark.parametrize(("future", "client"), [("cancelled", "running"), ("lost", "closed"), ("finished", "closed")])
def test_a_lost_scheduler_is_one_line(jobs, future, client):
    gone = FakeFuture([future], [])
    with pytest.raises(ClusterError, match=r"tcp://there:8786: the scheduler is gone"):
        fake_cluster(jobs, gone, client)._event(gone)


@pytest.mark.parametrize("error", [ConnectionResetError(), CancelledError()])
def test_a_scheduler_lost_while_a_result_is_fetched_is_one_line(jobs, error):
    future = FakeFuture(["finished"], [error])
    with pytest.raises(ClusterError, match=r"tcp://there:8786: the scheduler is gone"):
        fake_cluster(jobs, future)._event(future)


def test_no_scheduler_is_one_line(jobs, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(clustering, "CONNECT_S", 0.2)
    with pytest.raises(UserError, match=r"on: tcp://127.0.0.1:1: no scheduler answers"):
        run_sweep(jobs, out=tmp_path, on="tcp://127.0.0.1:1")


def test_a_result_of_another_build_is_refused(jobs, swept):
    from bentpipe.execution.sinks.table import check_same

    line = json.loads(swept.table.read_bytes().splitlines()[1])
    check_same(jobs[0], line)
    line["record"]["versions"]["build"] = "0" * 16
    with pytest.raises(UserError, match=r"^on: a worker runs bentpipe .*build 0000000000000000"):
        check_same(jobs[0], line)


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError(), CancelledError()])
def test_a_scheduler_lost_while_a_failure_is_fetched_is_one_line(jobs, error):
    def gone(timeout):
        raise error

    future = FakeFuture(["error"], [])
    future.exception = gone
    with pytest.raises(ClusterError, match=r"tcp://there:8786: the scheduler is gone"):
        fake_cluster(jobs, future)._event(future)


def test_a_line_written_in_pieces_is_whole(jobs, swept, tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(tables.os, "write", lambda file, data: write(file, data[:100]))
    again = run_sweep(jobs, out=tmp_path)
    assert records(again) == records(swept)
    monkeypatch.undo()
    assert run_sweep(jobs, out=tmp_path).resumed == len(jobs)


def test_a_failing_fsync_is_one_line(jobs, tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tables.os, "fsync", full)
    with pytest.raises(StoreError, match=r"the disk is full"):
        run_sweep(jobs, out=tmp_path)


def test_a_bulk_flow_over_a_profile_without_capacity_is_refused_before_anything_runs():
    pings = pl.DataFrame({"unix_ns": [10**18 + i * 10**8 for i in range(60)], "rtt_ms": [30.0] * 60})
    with pytest.raises(UserError, match=r"no capacity upwards.*--capacity up=100mbit"):
        race_jobs([profile_from_pings(pings).profile], ["cubic"], direction="up", duration_s=2)
