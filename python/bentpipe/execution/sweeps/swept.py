"""A Run of a sweep: its `run.json` and what was measured of it; its tables were let go."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.execution.drawn import referring_to
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
    """What `bentpipe.runs` summarises and compares as any Run; `path` is the table it stands in."""

    measures: Mapping[str, Any] = field(default_factory=dict)

    def _table(self, name: str) -> pl.DataFrame:
        raise UserError(
            f"{self.path}: a sweep keeps no {name} of its Runs; measure what is wanted of them (`measure=`), or race"
        )


def execute(job: Job, key: str, drawn: DrawnProfiles, heard: Callable[[float], None] | None = None) -> str:
    """Run a job, whose `Job.key` is `key`; its result as a line of JSON, as the table keeps it.

    Whoever runs it, here or on another machine, the line is the same. `heard` is told the share done and may raise.
    """
    item = job.work
    paths = drawn.take(item.bases, item.seed)
    experiment = referring_to(item.experiment, paths)
    data = plugins.simulate(experiment, paths, heard)
    whole = record.run_record(item, experiment, paths, data)
    measures = {} if job.measure is None else dict(job.measure(Outcome(experiment, whole["summary"], data)))
    try:
        return json.dumps({"key": key, "record": whole, "measures": measures}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UserError(f"what was measured is no plain data: {error}; wanted None for a NaN") from None
