"""Runs that failed in a Python controller: `failed.json` beside the Runs, so that a report can list them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Literal

from bentpipe.errors import UserError
from bentpipe.experiments.experiment import Experiment
from bentpipe.experiments.flow_names import split_flow
from bentpipe.records import Items, Record
from bentpipe.runs.manifest import FORMAT, ManifestWarning, Place, is_newer, read_document, write_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from bentpipe.runs.work import Work

FILE = "failed.json"


class FailedRun(Record):
    """A Run that failed, and why: the controller, the time and the error."""

    experiment: str
    world: str
    profile: str
    scheme: str
    seed: int
    why: str
    profile_hashes: Items[str]
    """Content hashes of its Profiles as given."""
    requested: Experiment
    """The Experiment, over the given Profiles."""

    @property
    def place(self) -> Place:
        """The Run's place in the folder."""
        return self.experiment, self.world, self.profile, self.scheme, self.seed

    def __str__(self) -> str:
        """Return its name and the reason, for messages."""
        return f"{self.scheme}, seed {self.seed}, on {self.profile}: {self.why}"


class FailedFile(Record):
    """`failed.json`: the failed Runs of a folder."""

    format: Literal[4] = FORMAT
    """Number of the format."""
    failed: Items[FailedRun]
    """The failed Runs."""


def of_work(item: Work, why: str) -> FailedRun:
    """Describe planned work as a failed Run."""
    return FailedRun(
        experiment=item.experiment.name,
        world=item.world,
        profile=item.label,
        scheme=item.scheme,
        seed=item.seed,
        why=why,
        profile_hashes=tuple(base.hash for base in item.bases),
        requested=item.experiment,
    )


def by_scheme(failed: Iterable[FailedRun]) -> list[str]:
    """Return a line per scheme: its number of failed Runs, and the first."""
    groups: dict[str, list[FailedRun]] = {}
    for run in failed:
        groups.setdefault(run.scheme, []).append(run)
    return [
        f"{scheme}: {len(runs)} {'Run' if len(runs) == 1 else 'Runs'} ended early; seed {runs[0].seed} on "
        # The scheme of a single flow already names the controller.
        f"{runs[0].profile}: {runs[0].why.removeprefix(f'controller {split_flow(scheme)[0]}: ')}"
        for scheme, runs in groups.items()
    ]


def store_failed(out: Path, tried: Iterable[Place], failed: Sequence[FailedRun]) -> None:
    """Store which of the Runs `tried` failed, in place of their earlier entries. A newer bentpipe's file is unchanged.

    Raises:
        StoreError: The disk cannot be written.
    """
    if is_newer(out / FILE, FORMAT):
        warnings.warn(f"{out / FILE}: of a newer bentpipe, left unchanged; update bentpipe", ManifestWarning, 2)
        return
    places = set(tried)
    now = [run for run in read_failed(out) if run.place not in places] + list(failed)
    file = out / FILE
    if now:
        write_document(file, FailedFile(failed=tuple(now)))
    else:
        file.unlink(missing_ok=True)


def read_failed(out: Path) -> list[FailedRun]:
    """Read the failed Runs of a folder; none, with a warning, if the file is damaged. Never an error."""
    file = out / FILE
    if not file.is_file():
        return []
    try:
        return list(read_document(file, FailedFile).failed)
    except UserError as error:
        warnings.warn(f"{file}: cannot be read, so failed Runs are not listed: {error}", ManifestWarning, 2)
        return []
