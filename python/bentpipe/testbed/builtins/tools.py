"""Running a tool, and making a measured Run of its output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.testbed.builtins.outcome import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.measurements.runs.store import MeasuredRun
    from bentpipe.testbed.builtins.request import Context


def run_tool(command: Sequence[str], output: Path | None = None) -> tuple[int, str]:
    """Run a tool, its standard output into a file; return its exit code and its last line of standard error.

    Raises:
        UserError: It is not here.
    """
    try:
        with (output or Path(os.devnull)).open("wb") as file:
            done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, check=False)
    except FileNotFoundError:
        raise UserError(
            "is not installed", where=command[0], expected="it on this node", hint=f"apt install {command[0]}"
        ) from None
    text = done.stderr.decode(errors="replace")
    sys.stderr.write(text)
    return done.returncode, one_line(text.strip().rpartition("\n")[2])


def measured(context: Context, files: Sequence[Path]) -> MeasuredRun:
    """Make the measured Run of tool output in the result's folder. Raises `UserError`: it cannot be read."""
    from bentpipe.measurements.runs.imports import import_files

    with tempfile.TemporaryDirectory() as folder:
        imported = import_files(list(files), folder, site=context.request.site)
        return keep(imported.run, context.output)


def keep_samples(context: Context, rows: Sequence[Mapping[str, Any]], notes: Sequence[str] = ()) -> None:
    """Make the measured Run of rows of `samples` in the result's folder; without any there is none."""
    if not rows:
        return
    import polars as pl

    from bentpipe.measurements.runs.store import Source, write_measured

    name = f"testbed {context.request.builtin}"
    source = Source(name=name, format="testbed-builtin", notes=tuple(notes), tables=("samples",))
    table = pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.lit(name).alias("source"))
    with tempfile.TemporaryDirectory() as folder:
        keep(write_measured(folder, {"samples": table}, [source], site=context.request.site), context.output)


def keep(run: MeasuredRun, output: Path) -> MeasuredRun:
    """Move a measured Run's files into the result's folder."""
    from bentpipe.measurements.runs.store import read_measured

    for file in sorted(run.path.iterdir()):
        shutil.move(file, output / file.name)
    return read_measured(output)


def module(name: str, *arguments: str) -> list[str]:
    """Return the command of a module of bentpipe."""
    return [sys.executable, "-P", "-m", name, *arguments]
