"""Commands that repeat the races and programs of a report."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from bentpipe.report import program
from bentpipe.runs import manifest
from bentpipe.runs.manifest import Manifest, read_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.report.place import Place
    from bentpipe.runs.run_record import World
    from bentpipe.runs.store import Run

RACES = ("race-up", "race-down")
"""Names of the Experiments of `bentpipe race` without a file: only bulk flows."""


def repeat_commands(place: Place, runs: Sequence[Run]) -> list[str]:
    """Return commands that repeat the races in a folder, from inside it; none for Experiments from a file.

    Races are repeated as requested, even if unfinished. Runs without a manifest are repeated as they are, programs by
    `bentpipe run`. A race with queues of its own has none: a manifest does not say which.
    """
    commands: dict[str, None] = {}
    if (out := place.folder) is None:
        return []
    requested = read_manifest(out)
    places = set[manifest.Place]().union(*(entry.places() for entry in requested))
    groups: dict[tuple[str, World, float, float | None], list[Run]] = {}
    for run in runs:
        if (run.experiment, run.world, run.label, run.scheme, run.seed) not in places:
            phase_s = run.offset_s if run.record.phase == "given" else None
            groups.setdefault((run.experiment, run.world, run.duration_s, phase_s), []).append(run)
    for (experiment, world_name, duration_s, phase_s), mine in groups.items():
        repeated = Manifest(
            experiment=experiment,
            profiles=tuple(dict.fromkeys(run.label for run in mine)),
            schemes=tuple(dict.fromkeys(run.scheme for run in mine)),
            seeds=(max(run.seed for run in mine),),
            duration_s=duration_s,
            phase_s=phase_s,
            world=world_name,
        )
        requested.append(repeated)
    with_queues = {(run.experiment, run.world) for run in runs if _has_queues(run)}
    for entry in requested:
        if entry.experiment in RACES and (entry.experiment, entry.world) not in with_queues:
            command = ["bentpipe", "race", *(f"profiles/{label}.parquet" for label in entry.profiles)]
            command += ["--cc", ",".join(entry.schemes)]
            command += ["--direction", entry.experiment.removeprefix("race-")]
            command += ["--duration", _seconds(entry.duration_s), "--seeds", str(max(entry.seeds) + 1)]
            command += ["--on-kernel"] if entry.world == "emulated" else []
            command += ["--phase", _seconds(entry.phase_s)] if entry.phase_s is not None else []
            commands[shlex.join([*command, "-o", "again"])] = None
    for run in runs:
        if command := program.repeat(run):
            commands[shlex.join(command)] = None
    return [f"cd {shlex.quote(str(out))}", *commands, "bentpipe report again"] if commands else []


def _has_queues(run: Run) -> bool:
    """Return whether the Run's Experiment replaces queues of its Profiles."""
    return bool(run.record.experiment.queues)


def _seconds(value_s: float) -> str:
    """Format seconds to the nanosecond, without an exponent."""
    return f"{value_s:.9f}".rstrip("0").rstrip(".")
