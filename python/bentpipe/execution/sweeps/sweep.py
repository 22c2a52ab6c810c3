"""`run_sweep`: many Runs, on this machine's cores or on a cluster, each result stored as soon as it is finished."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.execution.cluster import on_cluster
from bentpipe.execution.drawn import DrawnProfiles
from bentpipe.execution.engine import Execution
from bentpipe.execution.pools import on_threads
from bentpipe.execution.sinks.table import SweepWarning, SweptRun, TableSink, execute
from bentpipe.execution.sweeps.table import ResultsTable
from bentpipe.runs import text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from bentpipe.execution.engine import OnProgress
    from bentpipe.execution.job import Job
    from bentpipe.execution.pools import Event, Reports
    from bentpipe.runs.failed import FailedRun


@dataclass(frozen=True)
class SweepResult:
    """Result of a sweep.

    Attributes:
        table: The file with the results.
        runs: One Run for each job, in order; None: it failed.
        failed: The failed Runs, by the index of the job.
        resumed: Number of Runs that existed before.
    """

    table: Path
    runs: tuple[SweptRun | None, ...]
    failed: Mapping[int, FailedRun]
    resumed: int

    def whole(self) -> list[SweptRun]:
        """Return all Runs, in order of the jobs.

        Raises:
            UserError: A Run failed.
        """
        for first in self.failed.values():
            raise UserError(f"{text.plural(len(self.failed), 'Run')} failed; the first: {first}")
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
        threads: Number of threads on this machine; None: the number of this process's cores. Each Run with a Python
            controller has a process of its own.
        fresh: Start with an empty table.
        on_progress: Called from this thread, about ten times a second.

    Raises:
        UserError: Before anything runs: a Run is impossible.
        RunsInterruptedError: After Ctrl-C, when all running jobs have stopped.
        ClusterError: The scheduler or all workers are gone; the message states the number of stored results.
        StoreError: The disk cannot be written; likewise.
    """
    if not jobs:
        raise UserError("none given", where="jobs", expected="at least one")
    if threads is not None and threads < 1:
        raise UserError(str(threads), where="threads", expected="at least 1")
    with ResultsTable(out, fresh=fresh) as table:
        sink = TableSink(jobs, table)
        execution: Execution[str] = Execution([job.work for job in jobs], sink.pending, sink, SweepWarning, on_progress)
        if sink.pending:
            with execution.reported():
                execution.take(_pool([jobs[i] for i in sink.pending], on, threads))
        failed_by_key = {jobs[i].key: failed for i, failed in execution.failed.items()}
        return SweepResult(
            table.path,
            tuple(sink.run(i) for i in range(len(jobs))),
            {i: failed_by_key[job.key] for i, job in enumerate(jobs) if job.key in failed_by_key},
            sink.resumed,
        )


def _pool(jobs: list[Job], on: str | None, threads: int | None) -> Iterator[Event[str]]:
    if on is not None:
        return on_cluster(jobs, on)
    threads = threads or len(os.sched_getaffinity(0))
    drawn = DrawnProfiles((threads + 1) * max(len(job.work.bases) for job in jobs))

    def run(number: int, reports: Reports) -> str:
        return execute(jobs[number], jobs[number].key, drawn, reports.share)

    return on_threads(run, len(jobs), threads)
