"""Bulk downloads in the simulator, and what the clock tells of the polls that a kernel would give."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bentpipe.execution.racing import race
from bentpipe.validation.kernel_clock import paths
from bentpipe.validation.kernel_clock.traces import acks_of, readings_of

SPAN_S = 120.0
"""Duration of a download [s]: eight slots."""
COUNTS = {"leo": 20, "irregular": 8, "fibre": 1, "geo": 1}
COUNTS_QUICK = {"leo": 2, "irregular": 1, "fibre": 1}
"""How many paths of each kind; fibre and GEO are the same each time."""
CONTROLLERS = ("bbr", "bbr3-leo", "cubic")


def downloads(kind: str, number: int) -> list[dict[str, Any]]:
    """Simulate a download with each controller over a path; return when there was a clock, and the error of its phase.

    Returns:
        A list of ``{kind, number, controller, readings}``; a reading is the time [s] and the error [s] of the phase,
        None without a clock. The error is that to slots of 15 s: of other paths it has no meaning.
    """
    with tempfile.TemporaryDirectory() as folder:
        raced = race(
            [paths.path_of(kind, number, SPAN_S + 5.0)],
            CONTROLLERS,
            out=Path(folder),
            duration_s=SPAN_S,
            phase_s=0.0,
            hook_trace=True,
        )
        return [
            {
                "kind": kind,
                "number": number,
                "controller": run.scheme,
                "readings": [
                    [t_s, paths.phase_error_s(reading.hint.at_ns / 1e9) if reading.is_sure else None]
                    for t_s, reading in readings_of([acks_of(run.path / "flow-0.hooks.gz")], SPAN_S)
                ],
            }
            for run in raced.runs
        ]
