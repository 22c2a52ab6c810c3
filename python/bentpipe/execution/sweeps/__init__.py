"""Sweeps: lists of Runs, on this machine's cores or on a Dask cluster, of which results are stored but no tables.

- `race_jobs`, `experiment_jobs`: make the jobs, with a function that measures each Run before its tables are dropped.
- `run_sweep`: runs the jobs; an interrupted sweep continues from its stored results.
- `SweptRun`: a result, which `bentpipe.runs` summarises and compares like any Run.

Design: `docs/design/005-sweeps.md`.
"""

from __future__ import annotations

from bentpipe.execution.sweeps.cluster import ClusterError
from bentpipe.execution.sweeps.engine import Progress, SweepInterruptedError, SweepResult, SweepWarning, run_sweep
from bentpipe.execution.sweeps.job import Job, Outcome, experiment_jobs, race_jobs
from bentpipe.execution.sweeps.swept import SweptRun
from bentpipe.execution.sweeps.table import DamagedResultWarning, read_results

__all__ = [
    "ClusterError",
    "DamagedResultWarning",
    "Job",
    "Outcome",
    "Progress",
    "SweepInterruptedError",
    "SweepResult",
    "SweepWarning",
    "SweptRun",
    "experiment_jobs",
    "race_jobs",
    "read_results",
    "run_sweep",
]
