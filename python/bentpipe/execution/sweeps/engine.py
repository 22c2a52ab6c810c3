"""`run_sweep`: many Runs, on this machine's cores or on a cluster, each result kept as soon as it is there."""

from __future__ import annotations

import json
import os
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.errors import BentpipeError, StoppedError, StoreError, UserError
from bentpipe.execution.sweeps.cluster import ClusterError, on_cluster
from bentpipe.execution.sweeps.pools import Finished, ProcessGoneError, Said, on_processes, on_threads
from bentpipe.execution.sweeps.swept import SweptRun
from bentpipe.execution.sweeps.table import ResultsTable
from bentpipe.runs import text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bentpipe.execution.sweeps.job import Job
    from bentpipe.execution.sweeps.pools import Event

    OnProgress = Callable[["Progress"], object]


class SweepWarning(UserWarning):
    """Something on the way that the sweep got over: a worker that is gone, a Run that failed."""


class SweepInterruptedError(StoppedError):
    """Ctrl-C: `kept` of `total` results are in the table."""

    def __init__(self, kept: int, total: int, said: str) -> None:
        """`said` is the whole line."""
        super().__init__(said)
        self.kept = kept
        self.total = total


@dataclass(frozen=True)
class Progress:
    """How far a sweep is.

    Attributes:
        share: Of all that is to be done, 0 to 1; what was there before counts as done.
        done: Runs that are there or failed.
        total: Runs wanted.
        left_s: Estimate of the time left [s]; None until there is something to go by.
    """

    share: float
    done: int
    total: int
    left_s: float | None


@dataclass(frozen=True)
class SweepResult:
    """What a sweep left.

    Attributes:
        table: The file that keeps it.
        runs: One for each job, in order; None where the Run failed.
        failed: Why, by the place of the job.
        resumed: How many of them were there before.
    """

    table: Path
    runs: tuple[SweptRun | None, ...]
    failed: Mapping[int, str]
    resumed: int

    def whole(self) -> list[SweptRun]:
        """All Runs, in order of the jobs.

        Raises `UserError` that tells of the first one that failed, if one did.
        """
        for said in self.failed.values():
            raise UserError(f"{text.plural(len(self.failed), 'Run')} failed; the first: {said}")
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
    """Run every job, and keep each result in `out`'s table as soon as it is there.

    A result that is in the table already (same `Job.key`) is taken from there: a sweep that died goes on where it
    stopped, and one that was widened runs only what is new. Results are the same, bit for bit, wherever they are run.

    Args:
        jobs: `race_jobs`, `experiment_jobs`, or several of them joined.
        out: Folder of the table; one sweep writes there at a time.
        on: Address of a Dask scheduler (``tcp://host:8786``); None: this machine.
        threads: Of this machine; None: as many as this process has cores.
        fresh: Begin with an empty table.
        on_progress: Called from this thread, about ten times a second.

    Raises:
        UserError: before anything runs, for what cannot be run.
        SweepInterruptedError: after Ctrl-C, when all Runs under way have stopped.
        ClusterError: where the scheduler or all workers are gone; what was finished is kept, the message says how much.
        StoreError: where the disk refuses; likewise.
    """
    if not jobs:
        raise UserError("nothing to run: wanted at least one job")
    if threads is not None and threads < 1:
        raise UserError(f"--jobs: {threads}; wanted at least 1")
    keys = [job.key for job in jobs]
    with ResultsTable(out, fresh=fresh) as table:
        first = {key: i for i, key in reversed(list(enumerate(keys)))}  # the same Run asked for twice runs once
        pending = sorted(i for key, i in first.items() if key not in table.lines)
        resumed = sum(key in table.lines for key in keys)
        failed: dict[str, str] = {}
        watch = _Watch(jobs, pending, on_progress)
        try:
            if pending:
                _drain(_pool([jobs[i] for i in pending], on, threads), jobs, pending, table, failed, watch)
        except KeyboardInterrupt as stop:
            kept, said = _what_is_kept(keys, table)
            raise SweepInterruptedError(kept, len(jobs), f"interrupted: {said}") from stop
        except (ClusterError, ProcessGoneError, StoreError) as error:
            raise type(error)(f"{error}; {_what_is_kept(keys, table)[1]}") from error
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
            elif isinstance(event, Said):
                warnings.warn(event.text, SweepWarning, stacklevel=3)
            else:
                table.flush()
                watch.tick(event.shares)
    finally:
        pool.close()  # type: ignore[attr-defined]  # generators have it


class _Watch:
    """Turns what is finished into `Progress`."""

    def __init__(self, jobs: Sequence[Job], pending: Sequence[int], on_progress: OnProgress | None) -> None:
        self._costs = [jobs[i].cost_s for i in pending]
        self._whole = sum(self._costs)
        self._all = sum(job.cost_s for job in jobs)
        self._total, self._done = len(jobs), len(jobs) - len(pending)
        self._spent = 0.0
        self._heard = on_progress
        self._began = time.monotonic()

    def finished(self, number: int) -> None:
        self._done += 1
        self._spent += self._costs[number]
        self.tick(0.0)

    def tick(self, shares: float) -> None:
        if self._heard is None:
            return
        spent = min(self._spent + shares * self._whole / len(self._costs), self._whole)
        elapsed = time.monotonic() - self._began
        left = elapsed * (self._whole - spent) / spent if spent > 0 else None
        share = 1.0 - (self._whole - spent) / self._all
        self._heard(Progress(share, self._done, self._total, left))


def _why_failed(job: Job, error: Exception) -> str:
    """A Run that failed of what a user can put right; anything else is a fault, and ends the sweep."""
    if not isinstance(error, BentpipeError):
        raise error
    return f"{job.name}: {error}"


def _check_same(job: Job, parsed: Mapping[str, Any]) -> None:
    """Refuse a result of another bentpipe, a worker's; or of another file of a controller in Python."""
    theirs, ours = parsed["record"]["versions"], job.versions
    other = [name for name, value in ours.items() if theirs.get(name) != value]
    if {"bentpipe", "build"} & set(other):
        found, wanted = (f"{each['bentpipe']} (build {each['build']})" for each in (theirs, ours))
        raise UserError(f"--on: a worker runs bentpipe {found}; wanted what runs here, {wanted}: install that there")
    if other:
        raise UserError(
            f"{job.name}: {other[0]} is another file where this ran than it was when the sweep began; with --on copy "
            "it to every worker's folder, here leave it as it is until the sweep is over"
        )


def _what_is_kept(keys: Sequence[str], table: ResultsTable) -> tuple[int, str]:
    kept = sum(key in table.lines for key in keys)
    return kept, f"{kept} of {len(keys)} Runs are kept in {table.path.parent}; the same command does the rest"


def _swept(job: Job, table: ResultsTable, key: str) -> SweptRun | None:
    """From the table, with this sweep's labels: the same path may have been called something else there."""
    line = table.lines.get(key)
    if line is None:
        return None
    labelled = [
        {**profile, "label": base.label}
        for profile, base in zip(line["record"]["profiles"], job.work.bases, strict=True)
    ]
    return SweptRun(table.path, {**line["record"], "profiles": labelled}, line["measures"])
