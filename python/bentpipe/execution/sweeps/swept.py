"""A Run of a sweep: its `run.json` and its measures, without tables."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.execution.drawn import with_references
from bentpipe.execution.sweeps.job import Outcome
from bentpipe.experiments import plugins
from bentpipe.runs import record
from bentpipe.runs.store import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

    from bentpipe.execution.drawn import DrawnProfiles
    from bentpipe.execution.sweeps.job import Job


@dataclass(frozen=True)
class SweptRun(Run):
    """A Run without tables, which `bentpipe.runs` summarises like any Run; `path` is the file of results."""

    measures: Mapping[str, Any] = field(default_factory=dict)

    def _table(self, name: str) -> pl.DataFrame:
        raise UserError(
            f"{self.path}: a sweep stores no {name} of its Runs; expected values of a `measure=` function; try a race"
        )


def execute(job: Job, key: str, drawn: DrawnProfiles, on_progress: Callable[[float], None] | None = None) -> str:
    """Run a job, whose `Job.key` is `key`; return its result as a line of JSON for the table.

    The line is the same on every machine. `on_progress` receives the share done and may raise.
    """
    item = job.work
    paths = drawn.take(item.bases, item.seed)
    experiment = with_references(item.experiment, paths)
    data = plugins.simulate(experiment, paths, on_progress)
    whole = record.run_record(item, experiment, paths, data)
    measures = {} if job.measure is None else dict(job.measure(Outcome(experiment, whole.summary, data)))
    try:
        return json.dumps({"key": key, "record": whole.to_dict(), "measures": measures}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UserError(f"the measure returned no plain data: {error}; expected None for a NaN") from None
