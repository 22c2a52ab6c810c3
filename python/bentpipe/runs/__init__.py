"""Runs: what happened. Racing controllers over Profiles, keeping Runs on disk, reading and summarising them.

- `race`: one Run per (Profile, entrant, seed), over all cores; `run_experiment`: an Experiment from a TOML file.
- `find_runs`, `read_run`: Runs from disk. `program_output`: what the program of one said.
- `summarise`, `compare`: over seeds, with confidence intervals.

Names are loaded when they are used: who reads a measured Run needs neither the simulator nor the race.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bentpipe.errors import StoreError
from bentpipe.runs.program_output import ProgramOutput, program_output

if TYPE_CHECKING:
    from bentpipe.runs.asked import Asked, AskedWarning
    from bentpipe.runs.asked import read as read_asked
    from bentpipe.runs.entrants import known_controllers, parse_entrants, parse_options
    from bentpipe.runs.estimates import Estimate, estimate, jain_index, paired_ratio
    from bentpipe.runs.experiment import Experiment, Flow, ProfileRef
    from bentpipe.runs.experiment_file import ExperimentFile, read_experiment
    from bentpipe.runs.raced_path import RacedPath, raced_path
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

#: Public name → the module it lives in, and its name there.
_HOMES = {
    "Asked": ("bentpipe.runs.asked", "Asked"),
    "AskedWarning": ("bentpipe.runs.asked", "AskedWarning"),
    "EntrantSummary": ("bentpipe.runs.summary", "EntrantSummary"),
    "Estimate": ("bentpipe.runs.estimates", "Estimate"),
    "Experiment": ("bentpipe.runs.experiment", "Experiment"),
    "ExperimentFile": ("bentpipe.runs.experiment_file", "ExperimentFile"),
    "Flow": ("bentpipe.runs.experiment", "Flow"),
    "FlowSummary": ("bentpipe.runs.summary", "FlowSummary"),
    "KernelWarning": ("bentpipe.runs.racing", "KernelWarning"),
    "LeftOut": ("bentpipe.runs.summary", "LeftOut"),
    "PathWarning": ("bentpipe.runs.racing", "PathWarning"),
    "ProfileRef": ("bentpipe.runs.experiment", "ProfileRef"),
    "RaceInterruptedError": ("bentpipe.runs.racing", "RaceInterruptedError"),
    "RaceResult": ("bentpipe.runs.racing", "RaceResult"),
    "RacedPath": ("bentpipe.runs.raced_path", "RacedPath"),
    "Run": ("bentpipe.runs.store", "Run"),
    "StartUp": ("bentpipe.runs.summary", "StartUp"),
    "compare": ("bentpipe.runs.summary", "compare"),
    "compare_difference": ("bentpipe.runs.summary", "compare_difference"),
    "counted": ("bentpipe.runs.summary", "counted"),
    "estimate": ("bentpipe.runs.estimates", "estimate"),
    "find_runs": ("bentpipe.runs.store", "find_runs"),
    "group_runs": ("bentpipe.runs.summary", "group_runs"),
    "jain_index": ("bentpipe.runs.estimates", "jain_index"),
    "known_controllers": ("bentpipe.runs.entrants", "known_controllers"),
    "left_out": ("bentpipe.runs.summary", "left_out"),
    "paired_ratio": ("bentpipe.runs.estimates", "paired_ratio"),
    "paired_values": ("bentpipe.runs.summary", "paired_values"),
    "parse_entrants": ("bentpipe.runs.entrants", "parse_entrants"),
    "parse_options": ("bentpipe.runs.entrants", "parse_options"),
    "race": ("bentpipe.runs.racing", "race"),
    "raced_path": ("bentpipe.runs.raced_path", "raced_path"),
    "read_asked": ("bentpipe.runs.asked", "read"),
    "read_experiment": ("bentpipe.runs.experiment_file", "read_experiment"),
    "read_run": ("bentpipe.runs.store", "read_run"),
    "results_table": ("bentpipe.runs.record", "results_table"),
    "run_experiment": ("bentpipe.runs.racing", "run_experiment"),
    "summarise": ("bentpipe.runs.summary", "summarise"),
    "total_goodput_bps": ("bentpipe.runs.summary", "total_goodput_bps"),
}

__all__ = [
    "Asked",
    "AskedWarning",
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


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name not in _HOMES:
        raise AttributeError(f"module 'bentpipe.runs' has no attribute {name!r}")
    module, there = _HOMES[name]
    value = getattr(importlib.import_module(module), there)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
