"""Plan of the Runs of a folder once more, from its manifest and its Profiles (``bentpipe race --repeat``)."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.execution import plan as planning
from bentpipe.experiments import experiment as ex
from bentpipe.experiments.plugins import file_hash, find_python_controller, named_plugins
from bentpipe.runs import store
from bentpipe.runs.manifest import read_requests
from bentpipe.runs.profiles import profile_file, read_given
from bentpipe.runs.work import Base, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from bentpipe.experiments.plugins import Role
    from bentpipe.runs.manifest import Manifest, Place, Request

    FindBase = Callable[[ex.ProfileRef, str], Base]
    """Returns the given Profile of a reference, by its label."""


class RepetitionWarning(UserWarning):
    """A race that is repeated runs Python code that its folder names; the message lists it."""


def plan_repetition(folder: Path, out: Path) -> list[Work]:
    """Plan the Runs of the races in a folder, to be stored below `out`: as requested, even if they are unfinished.

    Of two requests for one Run the later counts. Runs that no request lists are planned as they are.

    Warns:
        RepetitionWarning: The Runs use controllers or applications in Python. It comes before any of them is loaded,
            lists their files, and tells which differ from the recorded ones.

    Raises:
        UserError: There is no race, `race.json` cannot be read, its Runs are of two worlds, or a Profile is not the
            one that was raced.
    """
    find_base = _finder(folder)
    entries = read_requests(folder, "deleting it, to repeat the stored Runs alone")
    has_runs = bool(store.run_folders(folder))
    runs = [run for run in store.find_runs(folder) if run.record.program is None] if has_runs or not entries else []
    if not runs and not entries:
        raise UserError("no Run of a race", where=str(folder), expected="the folder (`out`) of a race")
    planned: dict[Place, Work] = {}
    hashes: dict[Place, Mapping[str, str]] = {}
    for entry in entries:
        for request, item in _requested(entry, out, find_base):
            planned[item.place], hashes[item.place] = item, request.plugins
    for run in runs:
        item = _as_stored(run, out, find_base)
        planned.setdefault(item.place, item)
        if not hashes.get(item.place):
            hashes[item.place] = run.record.versions
    if len({item.world for item in planned.values()}) > 1:
        raise UserError("holds simulated and emulated Runs", where=str(folder), expected="Runs of one world")
    _warn_of_python(planned, hashes)
    return list(planned.values())


def _warn_of_python(planned: Mapping[Place, Work], hashes: Mapping[Place, Mapping[str, str]]) -> None:
    """Warn of the Python code that these Runs execute, before it is loaded; code of a package is installed already."""
    recorded: dict[tuple[Role, str], dict[str | None, None]] = {}
    for place, item in planned.items():
        for role, name in named_plugins(item.experiment):
            recorded.setdefault((role, name), {})[hashes[place].get(f"{role} {name}")] = None
    files = {key: sha256 for key in recorded if (sha256 := file_hash(key[1])) is not None}
    if files:
        states = ", ".join(f"{name} ({_state(sha256, recorded[role, name])})" for (role, name), sha256 in files.items())
        warnings.warn(
            f"these Runs execute Python files that the folder names: {states}", RepetitionWarning, stacklevel=4
        )
    for role, name in (key for key in recorded if key not in files):
        state = _state(find_python_controller(name).sha256, recorded[role, name])
        if state != SAME:
            warnings.warn(f"these Runs execute {name} of a package ({state})", RepetitionWarning, stacklevel=4)


SAME = "as recorded"


def _state(sha256: str, recorded: Iterable[str | None]) -> str:
    """Compare the hash of a file with the recorded ones, in words; None: not recorded."""
    hashes = set(recorded)
    if hashes - {sha256, None}:
        return "changed since these Runs were recorded, so they may differ"
    return "its hash is not recorded, so it may be another file" if None in hashes else SAME


def _finder(folder: Path) -> FindBase:
    @cache
    def read(label: str) -> Callable[[str], Base]:
        return read_given(profile_file(folder, label))

    def find_base(reference: ex.ProfileRef, label: str) -> Base:
        base = read(label)(reference.role)
        if base.reference.replace(name=reference.name) != reference:
            raise UserError(
                "is not the Profile that was raced",
                where=str(profile_file(folder, label)),
                expected=f"content hash {reference.hash[:12]}",
            )
        return replace(base, label=label)

    return find_base


def _requested(entry: Manifest, out: Path, find_base: FindBase) -> Iterator[tuple[Request, Work]]:
    """Yield the Runs of a race by Profile and seed, so that Runs over one path follow each other."""
    by_label: dict[str, list[Request]] = {}
    for request in entry.requests:
        by_label.setdefault(request.label, []).append(request)
    for requests in by_label.values():
        for seed in dict.fromkeys(seed for request in requests for seed in request.seeds):
            for request in requests:
                if seed in request.seeds:
                    references = zip(request.experiment.profiles, request.profiles, strict=True)
                    bases = tuple(find_base(reference, label) for reference, label in references)
                    offset_ns = request.experiment.offset_ns
                    if request.phase == "drawn":
                        offset_ns = planning.start_offset_ns(bases[0], request.experiment.duration_ns, seed)
                    experiment = request.experiment.replace(seed=seed, offset_ns=offset_ns)
                    folder = planning.folder_of(out, experiment, entry.world, bases, request.scheme)
                    yield request, Work(bases, request.scheme, seed, request.phase, experiment, folder, entry.world)


def _as_stored(run: store.Run, out: Path, find_base: FindBase) -> Work:
    record = run.record
    references = tuple(
        reference.replace(hash=profile.base_hash)
        for reference, profile in zip(record.experiment.profiles, record.profiles, strict=True)
    )
    bases = tuple(
        find_base(reference, profile.label) for reference, profile in zip(references, record.profiles, strict=True)
    )
    experiment = record.experiment.replace(profiles=references)
    folder = planning.folder_of(out, experiment, run.world, bases, run.scheme)
    return Work(bases, run.scheme, run.seed, record.phase, experiment, folder, run.world)


def given_profiles(work: Iterable[Work]) -> list[Base]:
    """Return the given Profiles of the planned Runs, each once."""
    return list({base.label: base for item in work for base in item.bases}.values())
