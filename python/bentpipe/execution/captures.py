"""Temporary folders of packet captures, and the move of captures into their Run.

A Run is stored when it is over; a capture is written during the Run. If all processes are killed, the temporary folder
remains beside the Runs with everything that was written.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.execution.emulation.spec import CAPTURES
from bentpipe.experiments import hook_traces
from bentpipe.runs import store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bentpipe.execution.emulation.result import EmulationResult
    from bentpipe.runs.store import Run

PREFIX = ".unfinished-"


@dataclass(frozen=True)
class Extras:
    """Files that each Run of a race holds besides its tables: packet captures, hook traces."""

    capture: bool = False
    hook_trace: bool = False

    def check(self, *, on_kernel: bool, has_folder: bool) -> None:
        """Refuse what the Runs' world does not have, and files without a folder."""
        if self.capture and not on_kernel:
            raise UserError("the simulator's packets have no content", where="capture", expected="`on_kernel` with it")
        if self.hook_trace and on_kernel:
            raise UserError("only the simulator is recorded", where="hook_trace", expected="no `on_kernel` with it")
        for name in ("capture", "hook_trace"):
            if getattr(self, name) and not has_folder:
                raise UserError("no folder for the Runs", where=name, expected="`out`")

    def are_stored(self, run: Run) -> bool:
        """Tell whether the Run has them."""
        has_captures = not self.capture or are_stored(run.path)
        return has_captures and (
            not self.hook_trace or hook_traces.are_stored(run.path, len(run.record.experiment.flows))
        )


def new_folder(out: Path) -> Path:
    """Make a folder in `out` for files written during a Run. Raises `StoreError` if the disk cannot be written."""
    with store.storing(out):
        out.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=PREFIX, dir=out))


@contextlib.contextmanager
def temporary_folder(out: Path | None) -> Iterator[Path | None]:
    """Yield a temporary folder in `out` for captures, removed afterwards; None for None.

    Raises:
        StoreError: The disk cannot be written.
    """
    if out is None:
        yield None
        return
    folder = new_folder(out)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_room(captured: Path | None, emulated: EmulationResult) -> None:
    """Remove an incomplete capture, because it may have filled the disk, so that the Run's tables fit."""
    if emulated.capture_failed is not None:
        remove(captured)


def remove(captured: Path | None) -> None:
    """Remove the captures in a folder, if there is one."""
    if captured is not None:
        for name in CAPTURES:
            (captured / name).unlink(missing_ok=True)


def move_into(captured: Path | None, run: Run) -> None:
    """Move the files of `captured`, if any, into the Run. Raises `StoreError` if the disk cannot be written."""
    if captured is None:
        return
    with store.storing(run.path):
        for file in sorted(captured.iterdir()):
            shutil.move(file, run.path / file.name)


def are_stored(run_folder: Path) -> bool:
    """Tell whether the Run in that folder has its captures."""
    return all((run_folder / name).exists() for name in CAPTURES)
