"""Where captures are while they are written, and how they come into their Run.

A Run is put in its place when it is over; a capture is written as things happen. If everything is killed, the folder
stays beside the Runs, with all that was written.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.execution.emulation.engine import CAPTURES
from bentpipe.runs import store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bentpipe.execution.emulation.engine import Emulated
    from bentpipe.runs.store import Run

PREFIX = ".unfinished-"


def new_folder(out: Path) -> Path:
    """A new folder in `out` for what is written while a Run goes on. Raises `StoreError` where the disk refuses."""
    with store.storing(out):
        out.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=PREFIX, dir=out))


@contextlib.contextmanager
def taking(out: Path | None) -> Iterator[Path | None]:
    """A new folder in `out` for captures that go on, gone afterwards; None for None.

    Raises `StoreError` where the disk refuses.
    """
    if out is None:
        yield None
        return
    folder = new_folder(out)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_room(captured: Path | None, emulated: Emulated) -> None:
    """Remove a capture that could not be written to its end: what filled the disk, so that the Run's tables fit."""
    if captured is not None and emulated.capture_failed is not None:
        for name in CAPTURES:
            (captured / name).unlink(missing_ok=True)


def keep(captured: Path | None, run: Run) -> None:
    """Move the files of `captured`, if any, into the Run. Raises `StoreError` where the disk refuses."""
    if captured is None:
        return
    with store.storing(run.path):
        for file in sorted(captured.iterdir()):
            shutil.move(file, run.path / file.name)


def are_kept(run_folder: Path) -> bool:
    """Whether the Run in that folder has them."""
    return all((run_folder / name).exists() for name in CAPTURES)
