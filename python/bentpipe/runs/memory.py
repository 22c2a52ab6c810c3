"""Runs in memory: the same record and tables as a Run on disk, with the Profiles that were raced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.runs.failed import store_failed
from bentpipe.runs.profiles import profile_file, store_profiles
from bentpipe.runs.store import APPLICATIONS, Run, check_folder, write_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import polars as pl

    from bentpipe.runs.failed import FailedRun
    from bentpipe.runs.work import Base


@dataclass(frozen=True)
class MemoryRun(Run):
    """A Run that is not on disk; `path` is its place below the folder that it would be written to.

    Attributes:
        tables: `samples`, `links` and `events`, and `applications` if the Run has items.
        bases: The given Profiles; the Run's seed realises them.
    """

    tables: Mapping[str, pl.DataFrame] = field(repr=False)
    bases: tuple[Base, ...] = field(repr=False)

    def applications(self) -> pl.DataFrame | None:
        """Return the table `applications`; None: no application of the Run has items."""
        return self.tables.get(APPLICATIONS)

    def _table(self, name: str) -> pl.DataFrame:
        return self.tables[name]


def store_runs(runs: Sequence[Run], out: Path, failed: Sequence[FailedRun] = ()) -> Path:
    """Write Runs in memory below a folder, with their Profiles and the list of those that failed; return the folder.

    Raises:
        UserError: A Run is on disk already, the folder holds another Run or Profile in its place, or two Runs have one
            place or different Profiles of one label; nothing is written.
        StoreError: The disk cannot be written.
    """
    check_folder(out)
    held = [run for run in runs if isinstance(run, MemoryRun)]
    if len(held) < len(runs):
        there = next(run for run in runs if not isinstance(run, MemoryRun))
        raise UserError("this Run is on disk already", where=str(there.path), expected="Runs in memory")
    places: set[Path] = set()
    bases: dict[str, Base] = {}
    for run in held:
        place = out / run.path
        if place.exists():
            raise UserError("holds a Run already", where=str(place), expected="an empty folder", hint="another one")
        if place in places:
            raise UserError(
                "the place of two of the Runs", where=str(place), expected="one", hint="a folder for each Experiment"
            )
        places.add(place)
        for base in run.bases:
            if bases.setdefault(base.label, base).hash != base.hash:
                raise UserError(
                    "the place of two Profiles of the Runs",
                    where=f"{profile_file(out, base.label)}",
                    expected="one",
                    hint="a folder for each Experiment",
                )
    store_profiles(list(bases.values()), out, fresh=False)
    for run in held:
        write_run(out / run.path, run.record, run.tables)
    if failed:
        store_failed(out, [run.place for run in failed], failed)
    return out
