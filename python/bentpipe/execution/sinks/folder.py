"""Sink for complete Runs: each is a folder with tables and `run.json`, written as soon as it is finished."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from bentpipe.errors import ControllerError, UserError
from bentpipe.execution import captures
from bentpipe.execution.emulation.result import EmulationResult
from bentpipe.execution.engine import Stored
from bentpipe.runs import failed as failures
from bentpipe.runs import manifest, record, store, text
from bentpipe.runs.profiles import store_profiles
from bentpipe.runs.work import identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe.execution.captures import Extras
    from bentpipe.execution.engine import Simulated
    from bentpipe.runs.failed import FailedRun
    from bentpipe.runs.work import Base, Work


class KernelWarning(UserWarning):
    """A machine that is too busy for a race on the kernel, and the consequence."""


class OtherRunError(UserError):
    """The place of a Run holds another Run: `problem` says where, and how it differs."""

    code = "other_run"

    def __init__(self, folder: Path, other: str) -> None:
        """Name the `folder` and the differing property `other`."""
        self.problem = f"{folder}: holds a Run of another {other}"
        super().__init__(
            f"holds a Run of another {other}", where=str(folder), hint="another folder (`out`), or `fresh`"
        )


class FolderSink:
    """The Runs of a race in their folders below `out`. The caller holds the folder's lock."""

    survives = ControllerError

    def __init__(self, work: Sequence[Work], out: Path, *, fresh: bool, extras: Extras) -> None:
        """Read the Runs that exist and count; `fresh`: none does.

        Raises:
            OtherRunError: The place of a Run holds another Run.
        """
        self._work, self._out, self._fresh = work, out, fresh
        self.runs: dict[Path, store.Run] = {}
        store.remove_partial(item.folder.parent for item in work)
        if not fresh:
            existing = _reusable(work, out)
            self.runs = {folder: run for folder, run in existing.items() if extras.are_stored(run)}
        self.resumed = len(self.runs)
        self.pending = [i for i, item in enumerate(work) if item.folder not in self.runs]

    def begin(self, bases: Sequence[Base]) -> None:
        """Store the given Profiles and the request, before the first Run."""
        requested = manifest.extended(self._out, self._work, fresh=self._fresh)  # may refuse: before the first write
        store_profiles(bases, self._out, fresh=self._fresh)
        manifest.write_document(self._out / manifest.FILE, requested)

    def run(self, number: int) -> store.Run | None:
        """Return a Run of the request; None: it failed."""
        return self.runs.get(self._work[number].folder)

    def keep(self, run: Simulated, captured: Path | None = None) -> store.Run:
        """Write a Run; `captured` is the folder with its captures."""
        if isinstance(run.data, EmulationResult):
            captures.make_room(captured, run.data)
        tables = record.tables(run.experiment.to_dict()["flows"], run.data)
        whole = record.run_record(run.work, run.experiment, run.paths, run.data)
        written = store.write_run(run.work.folder, whole, tables)
        captures.move_into(captured, written)
        self.runs[run.work.folder] = written
        return written

    def add(self, number: int, kept: store.Run) -> None:
        """Do nothing: `keep` has stored the Run, so it counts even if its pool is stopped before the caller gets it."""

    def fail(self, failed: FailedRun) -> None:
        """Do nothing: the result of the execution lists the failed Runs."""

    def flush(self) -> None:
        """Do nothing: every Run is written at once."""

    def end(self, failed: Mapping[int, FailedRun]) -> None:
        """Store which Runs failed, in place of what an earlier execution stored about the Runs that were tried."""
        tried = [i for i in self.pending if i in failed or self._work[i].folder in self.runs]
        if not tried:
            return  # such as in a folder of a newer bentpipe, which was refused
        places = [self._work[i].place for i in tried]
        failures.store_failed(self._out, places, [failed[i] for i in tried if i in failed])

    def stored(self) -> Stored:
        """Return what is stored."""
        total = len(self._work)
        if not self._fresh:
            count = sum(_is_run(item.folder) for item in self._work)
            return Stored(count, f"{count} of {total} Runs are stored in {self._out}", "the same command runs the rest")
        count = len(self.runs)
        # --fresh would repeat those. Without it, earlier Runs must match the request, or the race is refused.
        can_continue = count > 0 and all(item.folder in self.runs or _is_free_or_matches(item) for item in self._work)
        rest = "the same command without `fresh` runs the rest" if can_continue else "the same command starts over"
        return Stored(count, f"{count} of {total} new Runs are finished in {self._out}", rest)


def _reusable(work: Sequence[Work], out: Path) -> dict[Path, store.Run]:
    """Return the existing valid Runs; warn of invalid ones, which are run again."""
    existing = {item.folder: run for item in work if (run := _already_there(item)) is not None}
    valid = {folder: run for folder, run in existing.items() if run.record.valid}
    if invalid := len(existing) - len(valid):
        are = "is not valid and is" if invalid == 1 else "are not valid and are"
        warnings.warn(f"{text.plural(invalid, 'Run')} in {out} {are} run again", KernelWarning, stacklevel=5)
    return valid


_OTHER = {
    "bentpipe": "version of bentpipe",
    "build": "build of bentpipe",
    "kernel": "kernel",
    "machine": "architecture",
}
"""Names of the keys of a Run's versions."""


def _already_there(item: Work) -> store.Run | None:
    if not item.folder.exists():
        return None
    try:
        run = store.read_run(item.folder)
    except store.DamagedRunError as error:
        warnings.warn(f"a damaged Run is replaced: {error}", store.DamagedRunWarning, stacklevel=5)
        return None
    hashes = [profile.base_hash for profile in run.record.profiles]
    actual, expected = identity(run.record.experiment, hashes, run.record.versions), item.identity
    if actual != expected:
        ours, theirs = expected.pop("versions"), actual.pop("versions")
        other = "Experiment or Profile"
        if actual == expected:  # except for the versions
            differs = next((key for key in ours if ours[key] != theirs.get(key)), "bentpipe")
            other = f"{_OTHER.get(differs, 'version of the controller')}, whose results may differ"
        raise OtherRunError(item.folder, other)
    return run


def _is_run(folder: Path) -> bool:
    """Tell whether the folder has a valid Run."""
    try:
        return store.read_run(folder).record.valid
    except UserError:
        return False


def _is_free_or_matches(item: Work) -> bool:
    """Tell whether the place of the work is empty or holds a matching Run."""
    try:
        with warnings.catch_warnings(action="ignore"):
            _already_there(item)
    except UserError:
        return False
    return True
