"""Execution of Experiments: simulated or emulated Runs, on threads, processes or a Dask cluster.

- `race`, `run_experiment`: one Run for each Profile, scheme and seed.
- `execution.sweeps`: long lists of Runs of which only the results are stored.
- `execution.emulation`: real programs on this machine's kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe import lazy

if TYPE_CHECKING:
    from bentpipe.execution.racing import (
        KernelWarning,
        RaceInterruptedError,
        RaceResult,
        race,
        run_experiment,
    )
    from bentpipe.execution.service import PathWarning

#: Public name → the module that defines it.
_HOMES = {
    "KernelWarning": "bentpipe.execution.racing",
    "PathWarning": "bentpipe.execution.service",
    "RaceInterruptedError": "bentpipe.execution.racing",
    "RaceResult": "bentpipe.execution.racing",
    "race": "bentpipe.execution.racing",
    "run_experiment": "bentpipe.execution.racing",
}

__all__ = [
    "KernelWarning",
    "PathWarning",
    "RaceInterruptedError",
    "RaceResult",
    "race",
    "run_experiment",
]


__getattr__ = lazy.names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
