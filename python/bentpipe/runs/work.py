"""A Run before it runs: the Profiles it is given, its Experiment, its folder and what identifies it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.experiments import experiment as ex
from bentpipe.experiments.plugins import python_controllers
from bentpipe.runs import record, store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe._native import Profile


@dataclass(frozen=True)
class Base:
    """A Profile as it was given."""

    role: str
    label: str
    profile: Profile
    hash: str

    @property
    def duration_ns(self) -> int:
        """How long it lasts [ns]."""
        return round(self.profile.duration_s * ex.NS_PER_S)

    def drawn(self, seed: int) -> Profile:
        """What a Run with `seed` meets: for 0 the Profile as it is, else drawn anew with its own seed + `seed`.

        A Profile in which nothing was drawn (a preset, a measurement) stays as it is.
        """
        own = self.profile.seed
        return self.profile if seed == 0 or own is None else self.profile.reseed((own + seed) % 2**64)


@dataclass(frozen=True)
class Work:
    """One Run to be. `experiment` refers to the given Profiles; the Run's refers to them as drawn with its seed."""

    bases: tuple[Base, ...]
    scheme: str
    seed: int
    phase: str
    experiment: ex.Experiment
    folder: Path
    world: store.World = "simulated"

    @property
    def name(self) -> str:
        """As messages call it."""
        return f"{self.scheme}, seed {self.seed}, on {'+'.join(base.label for base in self.bases)}"

    @property
    def identity(self) -> dict[str, Any]:
        """What must agree for a finished Run to stand for this work."""
        versions = record.versions(self.world, python_controllers(self.experiment))
        return identity(self.experiment.to_dict(), [base.hash for base in self.bases], versions)


def identity(experiment: Mapping[str, Any], base_hashes: Sequence[str], versions: Mapping[str, Any]) -> dict[str, Any]:
    """The Experiment without its Profiles' hashes (a seed changes them), the given Profiles' hashes, and what ran it.

    Two builds of one version may differ in what they simulate, two kernels or architectures in what they send.
    """
    profiles = [{**profile, "hash": base} for profile, base in zip(experiment["profiles"], base_hashes, strict=True)]
    ran = {key: versions.get(key) for key in ("bentpipe", "build", "kernel", "machine")} | {
        key: value for key, value in versions.items() if key.startswith(record.PYTHON_CONTROLLER)
    }
    whole: dict[str, Any] = json.loads(json.dumps({**experiment, "profiles": profiles, "versions": ran}))
    return whole
