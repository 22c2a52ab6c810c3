"""The manifest `race.json` of a folder of Runs: what was requested, written before the first Run.

It lets a report detect missing Runs.
"""

from __future__ import annotations

import json
import warnings
from itertools import product
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import Field

from bentpipe.errors import UserError, shown
from bentpipe.files import atomic_write, read_text
from bentpipe.records import Items, Record
from bentpipe.runs import store
from bentpipe.runs.run_record import World

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from bentpipe.runs.work import Work

T = TypeVar("T")
R = TypeVar("R", bound=Record)

FILE = "race.json"
FORMAT: Literal[2] = 2

Place = tuple[str, str, str, str, int]
"""Experiment, world, Profile's label, scheme, seed: one Run of the folder."""


class Manifest(Record):
    """One race: every scheme on every Profile with every seed."""

    experiment: str
    """Name of the Experiment."""
    profiles: Annotated[Items[str], Field(min_length=1)]
    """Labels of the Profiles."""
    schemes: Annotated[Items[str], Field(min_length=1)]
    """Schemes."""
    seeds: Annotated[Items[int], Field(min_length=1)]
    """Seeds."""
    duration_s: float
    """Duration of each Run [s]."""
    phase_s: float | None
    """Start phase [s]; null: drawn from the seed."""
    world: World = "simulated"
    """World of the Runs."""

    def places(self) -> set[Place]:
        """Return the requested Runs."""
        return set(product([self.experiment], [self.world], self.profiles, self.schemes, self.seeds))


class RaceFile(Record):
    """`race.json`: the races of a folder, in the order in which they were requested."""

    format: Literal[2] = FORMAT
    """Number of the format."""
    requested: Items[Manifest]
    """The races."""


class ManifestWarning(UserWarning):
    """`race.json` cannot be read, but the Runs can."""


def add(out: Path, work: Sequence[Work], *, fresh: bool) -> None:
    """Add the planned Runs to `race.json`. A fresh race replaces the entries that it covers completely.

    Raises:
        UserError: The folder has Runs of another world, or a manifest of a newer bentpipe.
    """
    if is_newer(out / FILE, FORMAT):
        raise UserError(
            f"of a newer format than {FORMAT}, the newest known",
            where=str(out / FILE),
            hint="a newer bentpipe, or another folder (`out`)",
            code="newer_format",
        )
    given = any(item.phase == "given" for item in work)
    new = Manifest(
        experiment=work[0].experiment.name,
        profiles=_unique("+".join(base.label for base in item.bases) for item in work),
        schemes=_unique(item.scheme for item in work),
        seeds=_unique(item.seed for item in work),
        duration_s=work[0].experiment.duration_ns / 1e9,
        phase_s=work[0].experiment.offset_ns / 1e9 if given else None,
        world=work[0].world,
    )
    stored = read_manifest(out)
    worlds = {entry.world for entry in stored} - {new.world}
    if worlds:
        raise UserError(
            f"holds {worlds.pop()} Runs",
            where=str(out),
            expected=f"{new.world} Runs, as means over both have no meaning",
            hint="another folder (`out`)",
        )
    others = [
        entry for entry in stored if not entry.places() <= new.places() or not (fresh or _timing(entry) == _timing(new))
    ]
    write_document(out / FILE, RaceFile(requested=(*others, new)))


def read_manifest(out: Path) -> list[Manifest]:
    """Read a folder's requests, in order; none, with a warning, if the file is damaged. Never an error."""
    file = out / FILE
    if not file.is_file():
        return []
    try:
        return list(read_document(file, RaceFile).requested)
    except UserError as error:
        warnings.warn(f"{file}: cannot be read, so missing Runs are not listed: {error}", ManifestWarning, 2)
        return []


def write_document(file: Path, document: Record) -> None:
    """Write a manifest in one step. Raises `StoreError` if the disk cannot be written."""
    with store.storing(file.parent), atomic_write(file) as target:
        target.write((json.dumps(document.to_dict(), indent=2) + "\n").encode())


def read_document(file: Path, kind: type[R]) -> R:
    """Read a manifest.

    Raises:
        UserError: It is none, or of another format. The message does not name the file.
    """
    try:
        document = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise UserError(f"not JSON ({error})", code="damaged") from None
    version = document.get("format") if isinstance(document, dict) else None
    if type(version) is not int or version != FORMAT:
        problem = f"its format is {shown(version)}"
        raise UserError(problem, expected=str(FORMAT), hint="running the race again", code="other_format")
    return kind.check(document, "")


def is_newer(file: Path, newest: int) -> bool:
    """Tell whether a file's format is newer than `newest`, so that this bentpipe must not overwrite it."""
    try:
        version = json.loads(read_text(file))["format"] if file.is_file() else None
    except (UserError, ValueError, KeyError, TypeError, RecursionError):
        return False  # damaged: its reader reports that
    return type(version) is int and version > newest


def _timing(entry: Manifest) -> tuple[float, float | None]:
    return entry.duration_s, entry.phase_s


def _unique(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))
