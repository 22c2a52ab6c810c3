"""Sweeps: lists of Runs, on this machine's cores or on a Dask cluster, of which results are stored but no tables.

- `race_jobs`, `experiment_jobs`: make the jobs, with a function that measures each Run before its tables are dropped.
- `run_sweep`: runs the jobs; an interrupted sweep continues from its stored results.
- `SweptRun`: a result, which `bentpipe.runs` summarises and compares like any Run.

Design: `docs/design/005-sweeps.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe import lazy

if TYPE_CHECKING:
    from bentpipe.execution.engine import Progress, RunsInterruptedError
    from bentpipe.execution.job import Job, Outcome, experiment_jobs, race_jobs
    from bentpipe.execution.pools import ClusterError
    from bentpipe.execution.sinks.table import SweepWarning, SweptRun
    from bentpipe.execution.sweeps.sweep import SweepResult, run_sweep
    from bentpipe.execution.sweeps.table import DamagedResultWarning, read_results

#: Public name → the module that defines it.
_HOMES = {
    "ClusterError": "bentpipe.execution.pools",
    "DamagedResultWarning": "bentpipe.execution.sweeps.table",
    "Job": "bentpipe.execution.job",
    "Outcome": "bentpipe.execution.job",
    "Progress": "bentpipe.execution.engine",
    "RunsInterruptedError": "bentpipe.execution.engine",
    "SweepResult": "bentpipe.execution.sweeps.sweep",
    "SweepWarning": "bentpipe.execution.sinks.table",
    "SweptRun": "bentpipe.execution.sinks.table",
    "experiment_jobs": "bentpipe.execution.job",
    "race_jobs": "bentpipe.execution.job",
    "read_results": "bentpipe.execution.sweeps.table",
    "run_sweep": "bentpipe.execution.sweeps.sweep",
}

__all__ = [
    "ClusterError",
    "DamagedResultWarning",
    "Job",
    "Outcome",
    "Progress",
    "RunsInterruptedError",
    "SweepResult",
    "SweepWarning",
    "SweptRun",
    "experiment_jobs",
    "race_jobs",
    "read_results",
    "run_sweep",
]

__getattr__ = lazy.names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
