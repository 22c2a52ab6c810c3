"""Commands that repeat the races and programs of a report."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from bentpipe.report import program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.report.place import Place
    from bentpipe.runs.store import Run


def repeat_commands(place: Place, runs: Sequence[Run]) -> list[str]:
    """Return commands that repeat the races and programs in a folder; none for Runs in memory.

    Races are repeated as requested, even if unfinished, each program by a command of its own.
    """
    if (out := place.folder) is None:
        return []
    commands: dict[str, None] = {}
    if any(run.record.program is None for run in runs):
        commands[shlex.join(["bentpipe", "race", "--repeat", str(out), "-o", "again"])] = None
    for run in runs:
        if command := program.repeat(run, out):
            commands[shlex.join(command)] = None
    return [*commands, "bentpipe report again"] if commands else []
