"""Sink without files: Runs in this process's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.errors import ControllerError
from bentpipe.execution.engine import Stored
from bentpipe.runs import record
from bentpipe.runs.memory import MemoryRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe.execution.engine import Simulated
    from bentpipe.runs.failed import FailedRun
    from bentpipe.runs.store import Run
    from bentpipe.runs.work import Base, Work


class MemorySink:
    """The Runs of an execution in memory: about 1 MB for a minute of one flow."""

    survives = ControllerError

    def __init__(self, work: Sequence[Work]) -> None:
        """Begin without Runs."""
        self._work = work
        self._runs: dict[Path, Run] = {}
        self.pending = list(range(len(work)))
        self.resumed = 0

    def begin(self, bases: Sequence[Base]) -> None:
        """Do nothing: the caller has the Profiles."""

    def end(self, failed: Mapping[int, FailedRun]) -> None:
        """Do nothing: the result of the execution lists the failed Runs."""

    def run(self, number: int) -> Run | None:
        """Return a Run of the request; None: it failed, or is not finished."""
        return self._runs.get(self._work[number].folder)

    def keep(self, run: Simulated, captured: Path | None = None) -> MemoryRun:
        """Make the tables of a Run; captures need a folder."""
        tables = record.tables(run.experiment.to_dict()["flows"], run.data)
        whole = record.run_record(run.work, run.experiment, run.paths, run.data)
        kept = MemoryRun(run.work.folder, whole, tables, run.work.bases)
        self._runs[run.work.folder] = kept
        return kept

    def add(self, number: int, kept: Run) -> None:
        """Do nothing: `keep` holds the Run, so it counts even if its pool is stopped before the caller gets it."""

    def fail(self, failed: FailedRun) -> None:
        """Do nothing: the result of the execution lists the failed Runs."""

    def flush(self) -> None:
        """Do nothing."""

    def stored(self) -> Stored:
        """Return the number of finished Runs."""
        count = len(self._runs)
        return Stored(count, f"{count} of {len(self._work)} Runs are finished", "a folder (`out`) would keep them")
