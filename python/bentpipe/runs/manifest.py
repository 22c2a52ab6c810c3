"""The manifest `race.json` of a folder of Runs: what was requested, written before the first Run.

It lets a report detect missing Runs.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from bentpipe.errors import UserError, shown
from bentpipe.files import atomic_write, read_text
from bentpipe.runs import store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from bentpipe.runs.work import Work

T = TypeVar("T")

FILE = "race.json"
FORMAT = 2

Place = tuple[str, str, str, str, int]
"""Experiment, world, Profile's label, scheme, seed: one Run of the folder."""


@dataclass(frozen=True)
class Manifest:
    """One race: every scheme on every Profile with every seed. `phase_s` is None if it was drawn from the seed."""

    experiment: str
    profiles: list[str]
    schemes: list[str]
    seeds: list[int]
    duration_s: float
    phase_s: float | None
    world: str = "simulated"

    def places(self) -> set[Place]:
        """Return the requested Runs."""
        return set(product([self.experiment], [self.world], self.profiles, self.schemes, self.seeds))


_KINDS: dict[str, tuple[type, ...]] = {
    "experiment": (str,),
    "profiles": (list,),
    "schemes": (list,),
    "seeds": (list,),
    "duration_s": (int, float),
    "phase_s": (int, float, type(None)),
    "world": (str,),
}


class ManifestWarning(UserWarning):
    """`race.json` cannot be read, but the Runs can."""


def add(out: Path, work: Sequence[Work], *, fresh: bool) -> None:
    """Add the planned Runs to `race.json`. A fresh race replaces the entries that it covers completely.

    Raises:
        UserError: The folder has Runs of another world, or a manifest of a newer bentpipe.
    """
    if is_newer(out / FILE, FORMAT):
        raise UserError(
            f"{out / FILE}: of a newer format than {FORMAT}, the newest known; update bentpipe, or choose another "
            "folder with -o"
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
            f"{out}: holds {worlds.pop()} Runs; expected {new.world} Runs, as means over both have no meaning; choose "
            "another folder with -o"
        )
    others = [
        entry for entry in stored if not entry.places() <= new.places() or not (fresh or _timing(entry) == _timing(new))
    ]
    document = {"format": FORMAT, "requested": [asdict(entry) for entry in [*others, new]]}
    with store.storing(out), atomic_write(out / FILE) as file:
        file.write((json.dumps(document, indent=2) + "\n").encode())


def read_manifest(out: Path) -> list[Manifest]:
    """Read a folder's requests, in order; none, with a warning, if the file is damaged. Never an error."""
    file = out / FILE
    if not file.is_file():
        return []
    try:
        return [_manifest(entry) for entry in entries(file, "requested", FORMAT)]
    except (UserError, ValueError, KeyError, TypeError, RecursionError) as error:
        warnings.warn(f"{file}: cannot be read, so missing Runs are not listed: {error}", ManifestWarning, 2)
        return []


def entries(file: Path, key: str, newest: int) -> list[Any]:
    """Return the list under `key` in a document of format `newest`.

    Raises:
        UserError: The format or the key's type is wrong.
        ValueError, KeyError, TypeError, RecursionError: The file is no such document.
    """
    document = json.loads(read_text(file))
    if type(document["format"]) is not int or document["format"] != newest:
        raise UserError(f"its format is {shown(document['format'])}; expected {newest}; run the race again")
    value = document[key]
    if type(value) is not list:
        raise UserError(f"{key} is {shown(value)}")
    return value


def is_newer(file: Path, newest: int) -> bool:
    """Tell whether a file's format is newer than `newest`, so that this bentpipe must not overwrite it."""
    try:
        version = json.loads(read_text(file))["format"] if file.is_file() else None
    except (UserError, ValueError, KeyError, TypeError, RecursionError):
        return False  # damaged: its reader reports that
    return type(version) is int and version > newest


def _manifest(entry: Any) -> Manifest:  # noqa: ANN401 -- any JSON value
    for key, kinds in _KINDS.items():
        if type(entry[key]) not in kinds:
            raise UserError(f"{key} is {shown(entry[key])}")
    for key, kind in (("profiles", str), ("schemes", str), ("seeds", int)):
        if not entry[key] or any(type(each) is not kind for each in entry[key]):
            raise UserError(f"{key} is {shown(entry[key])}")
    return Manifest(**{key: entry[key] for key in _KINDS})


def _timing(entry: Manifest) -> tuple[float, float | None]:
    return entry.duration_s, entry.phase_s


def _unique(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))
