"""What was asked of a folder of Runs: `race.json`, written before the first Run, so that a gap can be told."""

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
    """One command: every scheme on every Profile with every seed. `phase_s` is None where it was drawn by seed."""

    experiment: str
    profiles: list[str]
    schemes: list[str]
    seeds: list[int]
    duration_s: float
    phase_s: float | None
    world: str = "simulated"

    def places(self) -> set[Place]:
        """The Runs that it asks for."""
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
    """`race.json` cannot be read; the Runs can."""


def keep(out: Path, work: Sequence[Work], *, fresh: bool) -> None:
    """Add what is about to be run to `race.json`; a fresh race takes the place of those that it replaces whole.

    Raises `UserError` for a folder with Runs of another world, or of a newer bentpipe's.
    """
    if is_newer(out / FILE, FORMAT):
        raise UserError(
            f"{out / FILE}: of a newer format than {FORMAT}, the newest known; update bentpipe, or choose another "
            "folder with -o"
        )
    given = any(item.phase == "given" for item in work)
    new = Manifest(
        experiment=work[0].experiment.name,
        profiles=_once("+".join(base.label for base in item.bases) for item in work),
        schemes=_once(item.scheme for item in work),
        seeds=_once(item.seed for item in work),
        duration_s=work[0].experiment.duration_ns / 1e9,
        phase_s=work[0].experiment.offset_ns / 1e9 if given else None,
        world=work[0].world,
    )
    there = read_manifest(out)
    worlds = {asked.world for asked in there} - {new.world}
    if worlds:
        raise UserError(
            f"{out}: holds {worlds.pop()} Runs, and these would be {new.world}: means over both would say nothing; "
            "choose another folder with -o"
        )
    before = [asked for asked in there if not asked.places() <= new.places() or not (fresh or _how(asked) == _how(new))]
    document = {"format": FORMAT, "asked": [asdict(asked) for asked in [*before, new]]}
    with store.storing(out), atomic_write(out / FILE) as file:
        file.write((json.dumps(document, indent=2) + "\n").encode())


def read_manifest(out: Path) -> list[Manifest]:
    """What was asked of a folder, in order; nothing, with a warning, where that cannot be read. Never an error."""
    file = out / FILE
    if not file.is_file():
        return []
    try:
        return [_asked(entry) for entry in entries(file, "asked", FORMAT)]
    except (UserError, ValueError, KeyError, TypeError, RecursionError) as error:
        warnings.warn(f"{file}: cannot be read, so Runs that are missing are not told: {error}", ManifestWarning, 2)
        return []


def entries(file: Path, key: str, newest: int) -> list[Any]:
    """What stands under `key` in a document of a format up to `newest`.

    Raises `UserError`, `ValueError`, `KeyError`, `TypeError` or `RecursionError` for what is no such document.
    """
    document = json.loads(read_text(file))
    if type(document["format"]) is not int or document["format"] != newest:
        raise UserError(f"its format is {shown(document['format'])}; expected {newest}; run the race again")
    under = document[key]
    if type(under) is not list:
        raise UserError(f"{key} is {shown(under)}")
    return under


def is_newer(file: Path, newest: int) -> bool:
    """Whether a file is of a format after `newest`: what this bentpipe cannot read it shall not write over."""
    try:
        found = json.loads(read_text(file))["format"] if file.is_file() else None
    except (UserError, ValueError, KeyError, TypeError, RecursionError):
        return False  # damaged, which who reads it says
    return type(found) is int and found > newest


def _asked(entry: Any) -> Manifest:  # noqa: ANN401 -- whatever stands in the file
    for key, kinds in _KINDS.items():
        if type(entry[key]) not in kinds:
            raise UserError(f"{key} is {shown(entry[key])}")
    for key, kind in (("profiles", str), ("schemes", str), ("seeds", int)):
        if not entry[key] or any(type(each) is not kind for each in entry[key]):
            raise UserError(f"{key} is {shown(entry[key])}")
    return Manifest(**{key: entry[key] for key in _KINDS})


def _how(asked: Manifest) -> tuple[float, float | None]:
    return asked.duration_s, asked.phase_s


def _once(found: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(found))
