"""Runs: what happened. Racing controllers over Profiles, keeping Runs on disk, reading and summarising them.

- `race`: one Run per (Profile, entrant, seed), over all cores; `run_experiment`: an Experiment from a TOML file.
- `find_runs`, `read_run`: Runs from disk. `program_output`: what the program of one said.
- `summarise`, `compare`: over seeds, with confidence intervals.
"""

from __future__ import annotations

from bentpipe.errors import StoreError
from bentpipe.runs.asked import Asked, AskedWarning
from bentpipe.runs.asked import read as read_asked
from bentpipe.runs.entrants import known_controllers, parse_entrants, parse_options
from bentpipe.runs.estimates import Estimate, estimate, jain_index, paired_ratio
from bentpipe.runs.experiment import Experiment, Flow, ProfileRef
from bentpipe.runs.experiment_file import ExperimentFile, read_experiment
from bentpipe.runs.program_output import ProgramOutput, program_output
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
