"""Running a tool, and making a measured Run of its output."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.measurements.runs.store import MeasuredRun
    from bentpipe.testbed.builtins.request import Context


def run_tool(command: Sequence[str], output: Path | None = None) -> int:
    """Run a tool, its standard output into a file; return its exit code. Raises `UserError`: it is not here."""
    try:
        if output is None:
            return subprocess.run(command, check=False).returncode
        with output.open("wb") as file:
            return subprocess.run(command, stdout=file, check=False).returncode
    except FileNotFoundError:
        raise UserError(
            "is not installed", where=command[0], expected="it on this node", hint=f"apt install {command[0]}"
        ) from None


def measured(context: Context, files: Sequence[Path]) -> None:
    """Make the measured Run of tool output in the result's folder. Raises `UserError`: it cannot be read."""
    from bentpipe.measurements.runs.imports import import_files

    with tempfile.TemporaryDirectory() as folder:
        imported = import_files(list(files), folder, site=context.request.site)
        keep(imported.run, context.output)


def keep(run: MeasuredRun, output: Path) -> None:
    """Move a measured Run's files into the result's folder."""
    for file in sorted(run.path.iterdir()):
        shutil.move(file, output / file.name)


def module(name: str, *arguments: str) -> list[str]:
    """Return the command of a module of bentpipe."""
    return [sys.executable, "-m", name, *arguments]
