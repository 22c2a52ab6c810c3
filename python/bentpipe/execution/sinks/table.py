"""Sink for sweeps: of each Run a line of results in a table, without its own tables."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.execution.engine import Stored, simulate
from bentpipe.execution.job import Outcome
from bentpipe.runs import record
from bentpipe.runs.run_record import RunRecord
from bentpipe.runs.store import Run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from bentpipe.execution.drawn import DrawnProfiles
    from bentpipe.execution.job import Job
    from bentpipe.execution.pools import OnShare
    from bentpipe.execution.sweeps.table import ResultsTable
    from bentpipe.runs.failed import FailedRun


class SweepWarning(UserWarning):
    """A problem that does not stop the sweep: a lost worker, a failed Run."""


@dataclass(frozen=True)
class SweptRun(Run):
    """A Run without tables, which `bentpipe.runs` summarises like any Run; `path` is the file of results."""

    measures: Mapping[str, Any] = field(default_factory=dict)

    def _table(self, name: str) -> pl.DataFrame:
        raise UserError(
            f"a sweep stores no {name} of its Runs",
            where=str(self.path),
            expected="values of a `measure=` function",
            hint="a race",
        )


class TableSink:
    """The results of a sweep's jobs in its table, by the keys of the jobs. A job that is given twice runs once."""

    survives = UserError

    def __init__(self, jobs: Sequence[Job], table: ResultsTable) -> None:
        """Find the results that exist."""
        self._jobs, self._table = jobs, table
        self._keys = [job.key for job in jobs]
        first = {key: i for i, key in reversed(list(enumerate(self._keys)))}
        self.pending = sorted(i for key, i in first.items() if key not in table.lines)
        self.resumed = sum(key in table.lines for key in self._keys)

    def add(self, number: int, kept: str) -> None:
        """Add the line of a finished job."""
        parsed = json.loads(kept)
        check_same(self._jobs[self.pending[number]], parsed)
        self._table.add(kept, parsed)

    def fail(self, failed: FailedRun) -> None:
        """Warn: the sweep continues."""
        warnings.warn(str(failed), SweepWarning, stacklevel=7)

    def flush(self) -> None:
        """Sync the table to the disk."""
        self._table.flush()

    def stored(self) -> Stored:
        """Return what is stored."""
        count = sum(key in self._table.lines for key in self._keys)
        folder = self._table.path.parent
        summary = f"{count} of {len(self._keys)} Runs are stored in {folder}"
        return Stored(count, summary, "the same command runs the rest")

    def run(self, number: int) -> SweptRun | None:
        """Return the Run of a job, with this sweep's labels: its path may have had another label before."""
        job, line = self._jobs[number], self._table.lines.get(self._keys[number])
        if line is None:
            return None
        whole = RunRecord.check(line["record"], str(self._table.path))
        labels = {base.role: base.label for base in job.work.bases}
        return SweptRun(self._table.path, whole.with_labels(labels), line["measures"])


def execute(job: Job, key: str, drawn: DrawnProfiles, on_share: OnShare | None = None) -> str:
    """Run a job, whose `Job.key` is `key`; return its result as a line of JSON for the table.

    The line is the same on every machine. `on_share` receives the share done and may raise.
    """
    run = simulate(job.work, drawn, on_share)
    whole = record.run_record(job.work, run.experiment, run.paths, run.data)
    measures = {} if job.measure is None else dict(job.measure(Outcome(run.experiment, whole.summary, run.data)))
    try:
        return json.dumps({"key": key, "record": whole.to_dict(), "measures": measures}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UserError(f"the measure returned no plain data: {error}", expected="None for a NaN") from None


def check_same(job: Job, parsed: Mapping[str, Any]) -> None:
    """Refuse a worker's result from another bentpipe, or from another file of a Python controller."""
    theirs, ours = parsed["record"]["versions"], job.versions
    other = [name for name, value in ours.items() if theirs.get(name) != value]
    if {"bentpipe", "build"} & set(other):
        actual, expected = (f"{each['bentpipe']} (build {each['build']})" for each in (theirs, ours))
        raise UserError(
            f"a worker runs bentpipe {actual}",
            where="on",
            expected=f"{expected}, as here",
            hint="installing that there",
        )
    if other:
        raise UserError(
            f"{other[0]} changed after the start of the sweep, or differs on a worker",
            where=job.name,
            expected="the same file",
            hint="copying it to every worker's folder",
        )
