"""Experiments: flows, hosts, seeds and durations on a path, as typed records.

- `Experiment`, `Flow`, `CrossTraffic`, `ProfileRef`: the records, as stored in `run.json`.
- `read_experiment`: from a TOML file. `parse_schemes`: from the command line's ``--cc``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe import lazy

if TYPE_CHECKING:
    from bentpipe.experiments.experiment import (
        CrossTraffic,
        Experiment,
        Flow,
        ProfileRef,
    )
    from bentpipe.experiments.file import (
        ExperimentFile,
        read_experiment,
    )
    from bentpipe.experiments.schemes import (
        known_controllers,
        parse_options,
        parse_schemes,
    )
    from bentpipe.experiments.traffic import (
        cross_traffic,
    )

#: Public name → the module that defines it.
_HOMES = {
    "CrossTraffic": "bentpipe.experiments.experiment",
    "Experiment": "bentpipe.experiments.experiment",
    "ExperimentFile": "bentpipe.experiments.file",
    "Flow": "bentpipe.experiments.experiment",
    "ProfileRef": "bentpipe.experiments.experiment",
    "cross_traffic": "bentpipe.experiments.traffic",
    "known_controllers": "bentpipe.experiments.schemes",
    "parse_schemes": "bentpipe.experiments.schemes",
    "parse_options": "bentpipe.experiments.schemes",
    "read_experiment": "bentpipe.experiments.file",
}

__all__ = [
    "CrossTraffic",
    "Experiment",
    "ExperimentFile",
    "Flow",
    "ProfileRef",
    "cross_traffic",
    "known_controllers",
    "parse_options",
    "parse_schemes",
    "read_experiment",
]


__getattr__ = lazy.names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
