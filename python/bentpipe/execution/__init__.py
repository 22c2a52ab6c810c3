"""Execution of Experiments: simulated or emulated Runs, on threads, processes or a Dask cluster.

- `race`, `run_experiment`: one Run for each Profile, scheme and seed.
- `execution.sweeps`: long lists of Runs of which only the results are stored.
- `execution.emulation`: real programs on this machine's kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe import lazy

if TYPE_CHECKING:
    from bentpipe.execution.engine import Progress, RunsInterruptedError
    from bentpipe.execution.racing import RaceResult, race, run_experiment
    from bentpipe.execution.service import PathWarning
    from bentpipe.execution.sinks.folder import KernelWarning

#: Public name → the module that defines it.
_HOMES = {
    "KernelWarning": "bentpipe.execution.sinks.folder",
    "PathWarning": "bentpipe.execution.service",
    "Progress": "bentpipe.execution.engine",
    "RunsInterruptedError": "bentpipe.execution.engine",
    "RaceResult": "bentpipe.execution.racing",
    "race": "bentpipe.execution.racing",
    "run_experiment": "bentpipe.execution.racing",
}

__all__ = [
    "KernelWarning",
    "PathWarning",
    "Progress",
    "RaceResult",
    "RunsInterruptedError",
    "race",
    "run_experiment",
]


__getattr__ = lazy.names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
