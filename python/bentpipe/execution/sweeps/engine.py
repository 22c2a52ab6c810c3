"""`run_sweep`: many Runs, on this machine's cores or on a cluster, each result stored as soon as it is finished."""

from __future__ import annotations

import json
import os
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.errors import BentpipeError, StoppedError, StoreError, UserError
from bentpipe.execution.sweeps.cluster import ClusterError, on_cluster
from bentpipe.execution.sweeps.pools import Finished, Message, ProcessGoneError, on_processes, on_threads
from bentpipe.execution.sweeps.swept import SweptRun
from bentpipe.execution.sweeps.table import ResultsTable
from bentpipe.runs import text
from bentpipe.runs.run_record import RunRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bentpipe.execution.sweeps.job import Job
    from bentpipe.execution.sweeps.pools import Event

    OnProgress = Callable[["Progress"], object]


class SweepWarning(UserWarning):
    """A problem that does not stop the sweep: a lost worker, a failed Run."""


class SweepInterruptedError(StoppedError):
    """Ctrl-C: `stored` of `total` results are in the table."""

    def __init__(self, stored: int, total: int, message: str) -> None:
        """Take the counts and the whole message."""
        super().__init__(message)
        self.stored = stored
        self.total = total


@dataclass(frozen=True)
class Progress:
    """Progress of a sweep.

    Attributes:
        share: Share of all work done, 0 to 1, including earlier results.
        done: Number of finished or failed Runs.
        total: Number of all Runs.
        left_s: Estimate of the time left [s]; None before the first Run is finished.
    """

    share: float
    done: int
    total: int
    left_s: float | None


@dataclass(frozen=True)
class SweepResult:
    """Result of a sweep.

    Attributes:
        table: The file with the results.
        runs: One Run for each job, in order; None: it failed.
        failed: Reasons, by the index of the job.
        resumed: Number of Runs that existed before.
    """

    table: Path
    runs: tuple[SweptRun | None, ...]
    failed: Mapping[int, str]
    resumed: int

    def whole(self) -> list[SweptRun]:
        """Return all Runs, in order of the jobs.

        Raises:
            UserError: A Run failed.
        """
        for reason in self.failed.values():
            raise UserError(f"{text.plural(len(self.failed), 'Run')} failed; the first: {reason}")
        return [run for run in self.runs if run is not None]


def run_sweep(
    jobs: Sequence[Job],
    *,
    out: Path,
    on: str | None = None,
    threads: int | None = None,
    fresh: bool = False,
    on_progress: OnProgress | None = None,
) -> SweepResult:
    """Run every job, and store each result in `out`'s table as soon as it is finished.

    A result that is in the table already (same `Job.key`) is reused: an interrupted sweep continues, and an extended
    one runs only new jobs. Results are the same, bit for bit, on every machine.

    Args:
        jobs: `race_jobs`, `experiment_jobs`, or several of them joined.
        out: Folder of the table; one sweep writes there at a time.
        on: Address of a Dask scheduler (``tcp://host:8786``); None: this machine.
        threads: Number of threads on this machine; None: the number of this process's cores.
        fresh: Start with an empty table.
        on_progress: Called from this thread, about ten times a second.

    Raises:
        UserError: Before anything runs: a Run is impossible.
        SweepInterruptedError: After Ctrl-C, when all running jobs have stopped.
        ClusterError: The scheduler or all workers are gone; the message states the number of stored results.
        StoreError: The disk cannot be written; likewise.
    """
    if not jobs:
        raise UserError("jobs: none given; expected at least one")
    if threads is not None and threads < 1:
        raise UserError(f"--jobs: {threads}; expected at least 1")
    keys = [job.key for job in jobs]
    with ResultsTable(out, fresh=fresh) as table:
        first = {key: i for i, key in reversed(list(enumerate(keys)))}  # a Run that is requested twice runs once
        pending = sorted(i for key, i in first.items() if key not in table.lines)
        resumed = sum(key in table.lines for key in keys)
        failed: dict[str, str] = {}
        watch = _Watch(jobs, pending, on_progress)
        try:
            if pending:
                _drain(_pool([jobs[i] for i in pending], on, threads), jobs, pending, table, failed, watch)
        except KeyboardInterrupt as stop:
            stored, summary = _stored_results(keys, table)
            raise SweepInterruptedError(stored, len(jobs), f"interrupted: {summary}") from stop
        except (ClusterError, ProcessGoneError, StoreError) as error:
            raise type(error)(f"{error}; {_stored_results(keys, table)[1]}") from error
        runs = tuple(_swept(job, table, key) for job, key in zip(jobs, keys, strict=True))
        why = {i: failed[key] for i, key in enumerate(keys) if key in failed}
        return SweepResult(table.path, runs, why, resumed)


def _pool(jobs: list[Job], on: str | None, threads: int | None) -> Iterator[Event]:
    if on is not None:
        return on_cluster(jobs, on)
    cores = threads or len(os.sched_getaffinity(0))
    in_python = [job.in_python for job in jobs]
    return on_processes(jobs, cores) if any(in_python) else on_threads(jobs, cores)


def _drain(
    pool: Iterator[Event],
    jobs: Sequence[Job],
    pending: Sequence[int],
    table: ResultsTable,
    failed: dict[str, str],
    watch: _Watch,
) -> None:
    try:
        for event in pool:
            if isinstance(event, Finished):
                job = jobs[pending[event.number]]
                if event.error is not None:
                    failed[job.key] = _why_failed(job, event.error)
                    warnings.warn(failed[job.key], SweepWarning, stacklevel=3)
                elif event.line is not None:
                    parsed = json.loads(event.line)
                    _check_same(job, parsed)
                    table.add(event.line, parsed)
                watch.finished(event.number)
            elif isinstance(event, Message):
                warnings.warn(event.text, SweepWarning, stacklevel=3)
            else:
                table.flush()
                watch.tick(event.shares)
    finally:
        pool.close()  # type: ignore[attr-defined]  # generators have it


class _Watch:
    """Converts finished jobs into `Progress`."""

    def __init__(self, jobs: Sequence[Job], pending: Sequence[int], on_progress: OnProgress | None) -> None:
        self._costs = [jobs[i].cost_s for i in pending]
        self._whole = sum(self._costs)
        self._all = sum(job.cost_s for job in jobs)
        self._total, self._done = len(jobs), len(jobs) - len(pending)
        self._spent = 0.0
        self._on_progress = on_progress
        self._began = time.monotonic()

    def finished(self, number: int) -> None:
        self._done += 1
        self._spent += self._costs[number]
        self.tick(0.0)

    def tick(self, shares: float) -> None:
        if self._on_progress is None:
            return
        spent = min(self._spent + shares * self._whole / len(self._costs), self._whole)
        elapsed = time.monotonic() - self._began
        left = elapsed * (self._whole - spent) / spent if spent > 0 else None
        share = 1.0 - (self._whole - spent) / self._all
        self._on_progress(Progress(share, self._done, self._total, left))


def _why_failed(job: Job, error: Exception) -> str:
    """Describe a failure that a user can fix; any other error is a fault and ends the sweep."""
    if not isinstance(error, BentpipeError):
        raise error
    return f"{job.name}: {error}"


def _check_same(job: Job, parsed: Mapping[str, Any]) -> None:
    """Refuse a worker's result from another bentpipe, or from another file of a Python controller."""
    theirs, ours = parsed["record"]["versions"], job.versions
    other = [name for name, value in ours.items() if theirs.get(name) != value]
    if {"bentpipe", "build"} & set(other):
        actual, expected = (f"{each['bentpipe']} (build {each['build']})" for each in (theirs, ours))
        raise UserError(f"--on: a worker runs bentpipe {actual}; expected {expected}, as here; install that there")
    if other:
        raise UserError(
            f"{job.name}: {other[0]} changed after the start of the sweep, or differs on a worker; expected the same "
            "file; with --on, copy it to every worker's folder"
        )


def _stored_results(keys: Sequence[str], table: ResultsTable) -> tuple[int, str]:
    stored = sum(key in table.lines for key in keys)
    return stored, f"{stored} of {len(keys)} Runs are stored in {table.path.parent}; the same command runs the rest"


def _swept(job: Job, table: ResultsTable, key: str) -> SweptRun | None:
    """Return a result from the table with this sweep's labels: the path may have had another label before."""
    line = table.lines.get(key)
    if line is None:
        return None
    record = RunRecord.check(line["record"], str(table.path))
    labels = {base.role: base.label for base in job.work.bases}
    return SweptRun(table.path, record.with_labels(labels), line["measures"])
