"""Claim: killing a testbed's agent and its orchestrator loses no result, doubles none, and overlaps no booking."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.validation import Outcome, Row

if TYPE_CHECKING:
    from collections.abc import Callable

KILLS = 100
"""Kills of each program (issue 20)."""
SEED = 20
"""Seed of the times of kills."""
FAULTS = {
    "lost": "results of runs that are done and not in the store",
    "doubled": "due times with two runs that are done",
    "overlaps": "runs that overlap an exclusive one",
    "without_reason": "runs that ended otherwise, without a reason",
    "unknown_results": "results of runs that the orchestrator does not know",
}
"""What must not be."""


def run_apart(kills: int, seed: int, quiet_s: float = 30.0) -> dict[str, Any]:
    """Return the counts of `world.run_world`, made in a process of its own. Raises `RuntimeError`: its last line."""
    # Not below /tmp or /var/tmp: those of a run are its own.
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=f".testbed-faults-{os.getpid()}-") as folder:
        command = [sys.executable, "-P", "-m", "bentpipe.validation.testbed_faults.world", folder]
        command += [str(kills), str(seed), str(quiet_s)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError((result.stderr.strip().splitlines() or ["no message"])[-1])
    counts: dict[str, Any] = json.loads(result.stdout)
    return counts


def check(_: Path | None, on_progress: Callable[[float], None]) -> Outcome:
    """Kill both programs a hundred times each; a quarter of an hour."""
    from bentpipe.testbed.namespaces import linux

    if not linux.has_capability(linux.CAP_SYS_ADMIN):
        return Outcome("testbed-faults", skipped="needs root: namespaces of runs")
    on_progress(0.0)
    counts = run_apart(KILLS, SEED)
    rows = [Row(meaning, str(len(counts[name])), "0", "none", not counts[name]) for name, meaning in FAULTS.items()]
    agent, orchestrator = counts["kills"]
    states = ", ".join(f"{count} {state}" for state, count in sorted(counts["states"].items()))
    rows.append(Row("kills of the agent, of the orchestrator", f"{agent}, {orchestrator}", str(KILLS), "all", None))
    notes = [f"{counts['runs']} runs: {states}"]
    notes += [f"{count} × {reason}" for reason, count in counts["reasons"].items()]
    on_progress(1.0)
    return Outcome("testbed-faults", rows, notes)
