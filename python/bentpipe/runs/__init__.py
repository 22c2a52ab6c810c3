"""Runs: what happened. Racing controllers over Profiles, keeping Runs on disk, reading and summarising them.

- `race`: one Run per (Profile, entrant, seed), over all cores; `run_experiment`: an Experiment from a TOML file.
- `find_runs`, `read_run`: Runs from disk. `program_output`: what the program of one said.
- `summarise`, `compare`: over seeds, with confidence intervals.

Names are loaded when they are first used: who reads a measurement has no need of races. So no module of this package
may have the name of one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe import lazy

if TYPE_CHECKING:
    from bentpipe.errors import StoreError
    from bentpipe.runs.asked import Asked, AskedWarning, read_asked
    from bentpipe.runs.entrants import known_controllers, parse_entrants, parse_options
    from bentpipe.runs.estimates import Estimate, estimate, jain_index, paired_ratio
    from bentpipe.runs.experiment import CrossTraffic, Experiment, Flow, ProfileRef
    from bentpipe.runs.experiment_file import ExperimentFile, read_experiment
    from bentpipe.runs.path_of_runs import RacedPath, raced_path
    from bentpipe.runs.printed import ProgramOutput, program_output
    from bentpipe.runs.racing import (
        KernelWarning,
        PathWarning,
        RaceInterruptedError,
        RaceResult,
        race,
        run_experiment,
    )
    from bentpipe.runs.record import results_table
    from bentpipe.runs.store import Run, find_runs, read_run
    from bentpipe.runs.summary import (
        EntrantSummary,
        FlowSummary,
        LeftOut,
        StartUp,
        compare,
        compare_difference,
        counted,
        group_runs,
        left_out,
        paired_values,
        summarise,
        total_goodput_bps,
    )
    from bentpipe.runs.traffic import cross_traffic

#: Public name → the module it lives in.
_HOMES = {
    "Asked": "bentpipe.runs.asked",
    "AskedWarning": "bentpipe.runs.asked",
    "CrossTraffic": "bentpipe.runs.experiment",
    "EntrantSummary": "bentpipe.runs.summary",
    "Estimate": "bentpipe.runs.estimates",
    "Experiment": "bentpipe.runs.experiment",
    "ExperimentFile": "bentpipe.runs.experiment_file",
    "Flow": "bentpipe.runs.experiment",
    "FlowSummary": "bentpipe.runs.summary",
    "KernelWarning": "bentpipe.runs.racing",
    "LeftOut": "bentpipe.runs.summary",
    "PathWarning": "bentpipe.runs.racing",
    "ProfileRef": "bentpipe.runs.experiment",
    "ProgramOutput": "bentpipe.runs.printed",
    "RaceInterruptedError": "bentpipe.runs.racing",
    "RaceResult": "bentpipe.runs.racing",
    "RacedPath": "bentpipe.runs.path_of_runs",
    "Run": "bentpipe.runs.store",
    "StartUp": "bentpipe.runs.summary",
    "StoreError": "bentpipe.errors",
    "compare": "bentpipe.runs.summary",
    "compare_difference": "bentpipe.runs.summary",
    "counted": "bentpipe.runs.summary",
    "cross_traffic": "bentpipe.runs.traffic",
    "estimate": "bentpipe.runs.estimates",
    "find_runs": "bentpipe.runs.store",
    "group_runs": "bentpipe.runs.summary",
    "jain_index": "bentpipe.runs.estimates",
    "known_controllers": "bentpipe.runs.entrants",
    "left_out": "bentpipe.runs.summary",
    "paired_ratio": "bentpipe.runs.estimates",
    "paired_values": "bentpipe.runs.summary",
    "parse_entrants": "bentpipe.runs.entrants",
    "parse_options": "bentpipe.runs.entrants",
    "program_output": "bentpipe.runs.printed",
    "race": "bentpipe.runs.racing",
    "raced_path": "bentpipe.runs.path_of_runs",
    "read_asked": "bentpipe.runs.asked",
    "read_experiment": "bentpipe.runs.experiment_file",
    "read_run": "bentpipe.runs.store",
    "results_table": "bentpipe.runs.record",
    "run_experiment": "bentpipe.runs.racing",
    "summarise": "bentpipe.runs.summary",
    "total_goodput_bps": "bentpipe.runs.summary",
}

__all__ = [
    "Asked",
    "AskedWarning",
    "CrossTraffic",
    "EntrantSummary",
    "Estimate",
    "Experiment",
    "ExperimentFile",
    "Flow",
    "FlowSummary",
    "KernelWarning",
    "LeftOut",
    "PathWarning",
    "ProfileRef",
    "ProgramOutput",
    "RaceInterruptedError",
    "RaceResult",
    "RacedPath",
    "Run",
    "StartUp",
    "StoreError",
    "compare",
    "compare_difference",
    "counted",
    "cross_traffic",
    "estimate",
    "find_runs",
    "group_runs",
    "jain_index",
    "known_controllers",
    "left_out",
    "paired_ratio",
    "paired_values",
    "parse_entrants",
    "parse_options",
    "program_output",
    "race",
    "raced_path",
    "read_asked",
    "read_experiment",
    "read_run",
    "results_table",
    "run_experiment",
    "summarise",
    "total_goodput_bps",
]


__getattr__ = lazy.names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
