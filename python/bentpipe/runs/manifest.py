"""The manifest `race.json` of a folder of Runs: what was requested, written before the first Run.

It lets a report detect missing Runs, and ``bentpipe race --repeat`` make the same Runs again.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeVar

from pydantic import Field, model_validator

from bentpipe.errors import UserError, shown
from bentpipe.experiments.experiment import Experiment
from bentpipe.experiments.plugins import python_plugins
from bentpipe.files import atomic_write, read_text
from bentpipe.records import Items, Record
from bentpipe.runs import record, store, text
from bentpipe.runs.run_record import Phase, World, joined_labels

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.runs.work import Work

R = TypeVar("R", bound=Record)

FILE = "race.json"
FORMAT: Literal[4] = 4
"""Format of `race.json` and `failed.json`. Format 3 had no hashes of plugins, and failed Runs without Experiments."""

Place = tuple[str, str, str, str, int]
"""Experiment, world, Profile's label, scheme, seed: one Run of the folder."""


def place_of(run: store.Run) -> Place:
    """Return the place of a Run."""
    return run.record.experiment.name, run.world, run.label, run.scheme, run.seed


def _is_empty(value: Mapping[str, str]) -> bool:
    return not value


class Request(Record):
    """Runs that differ in their seeds, and in the start phases drawn from them: a scheme on a Profile."""

    profiles: Annotated[Items[str], Field(min_length=1)]
    """Labels of the Profiles, in the order of the Experiment's."""
    scheme: str
    """The scheme."""
    seeds: Annotated[Items[int], Field(min_length=1)]
    """Seeds."""
    phase: Phase
    """Source of the start phase: given (`offset_ns` of the Experiment), or drawn from the seed."""
    experiment: Experiment
    """The Experiment with the first seed, over the given Profiles."""
    plugins: Annotated[Mapping[str, str], Field(exclude_if=_is_empty)] = Field(default_factory=dict)
    """SHA-256 of the file of each controller and application in Python, by ``controller NAME`` or ``app NAME``."""

    @model_validator(mode="after")
    def _check_profiles(self) -> Self:
        if len(self.profiles) != len(self.experiment.profiles):
            raise UserError(
                f"{text.plural(len(self.profiles), 'label')}",
                where="profiles",
                expected=f"{len(self.experiment.profiles)}, one for each Profile of experiment",
            )
        return self

    @property
    def label(self) -> str:
        """Label of the Profile in the folder; several are joined by ``+``."""
        return joined_labels(self.profiles)


class Manifest(Record):
    """One race."""

    world: World
    """World of the Runs."""
    requests: Annotated[Items[Request], Field(min_length=1)]
    """Its Runs, by Profile and scheme."""

    def places(self) -> set[Place]:
        """Return the requested Runs."""
        return {place for request in self.requests for place in self.places_of(request)}

    def places_of(self, request: Request) -> list[Place]:
        """Return the Runs of one of its requests."""
        key = request.experiment.name, self.world, request.label, request.scheme
        return [(*key, seed) for seed in request.seeds]


class RaceFile(Record):
    """`race.json`: the races of a folder, in the order in which they were requested."""

    format: Literal[4] = FORMAT
    """Number of the format."""
    requested: Items[Manifest]
    """The races."""


class ManifestWarning(UserWarning):
    """`race.json` cannot be read, but the Runs can."""


def extended(out: Path, work: Sequence[Work], *, fresh: bool) -> RaceFile:
    """Return `race.json` with the planned Runs of one race, in place of the entries that they cover completely.

    Raises:
        UserError: The folder has Runs of another world, a manifest of a newer bentpipe, or, unless `fresh`, one that
            cannot be read.
    """
    if is_newer(out / FILE, FORMAT):
        raise UserError(
            f"of a newer format than {FORMAT}, the newest known",
            where=str(out / FILE),
            hint="a newer bentpipe, or another folder (`out`)",
            code="newer_format",
        )
    new = Manifest(world=work[0].world, requests=_requests(work))
    stored = read_manifest(out) if fresh else read_requests(out, "another folder (`out`), or `fresh`")
    worlds = {entry.world for entry in stored} - {new.world}
    if worlds:
        raise UserError(
            f"holds {worlds.pop()} Runs",
            where=str(out),
            expected=f"{new.world} Runs, as means over both have no meaning",
            hint="another folder (`out`)",
        )
    covered = new.places()
    others = [entry for entry in stored if not entry.places() <= covered]
    return RaceFile(requested=(*others, new))


def _requests(work: Sequence[Work]) -> tuple[Request, ...]:
    groups: dict[tuple[tuple[str, ...], str, Phase, str], list[Work]] = {}
    for item in work:
        labels = tuple(base.label for base in item.bases)
        drawn = {"seed", "offset_ns"} if item.phase == "drawn" else {"seed"}
        experiment = json.dumps(item.experiment.model_dump(mode="json", exclude=drawn), sort_keys=True)
        groups.setdefault((labels, item.scheme, item.phase, experiment), []).append(item)
    return tuple(
        Request(
            profiles=labels,
            scheme=scheme,
            seeds=tuple(item.seed for item in items),
            phase=phase,
            experiment=items[0].experiment,
            plugins=record.plugin_hashes(python_plugins(items[0].experiment)),
        )
        for (labels, scheme, phase, _), items in groups.items()
    )


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


def read_requests(out: Path, hint: str) -> list[Manifest]:
    """Read a folder's requests, in order; none if it has no `race.json`.

    Raises:
        UserError: The file is damaged, or of another format; `hint` says what the user can try.
    """
    file = out / FILE
    if not file.is_file():
        return []
    try:
        return list(read_document(file, RaceFile).requested)
    except UserError as error:
        where = f"{file}: {error.where}" if error.where else str(file)
        raise UserError(error.found, where=where, expected=error.expected, hint=hint, code=error.code) from None


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
