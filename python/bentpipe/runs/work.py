"""A planned Run: its given Profiles, Experiment, folder and identity."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.experiments import experiment as ex
from bentpipe.experiments.plugins import python_plugins
from bentpipe.runs import record
from bentpipe.runs.run_record import joined_labels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe._native import Network, Profile
    from bentpipe.runs.manifest import Place
    from bentpipe.runs.run_record import Phase, World


@dataclass(frozen=True)
class Base:
    """A given Profile.

    Attributes:
        role: Its role in the Experiment.
        label: Its label in the folder; paths of one network have the network's.
        profile: The Profile.
        hash: Its content hash.
        network: The network whose path it is, under the role; None: of none.
        network_hash: Content hash of that.
    """

    role: str
    label: str
    profile: Profile
    hash: str
    network: Network | None = None
    network_hash: str | None = None

    @property
    def reference(self) -> ex.ProfileRef:
        """The reference to it in an Experiment."""
        return ex.ProfileRef(role=self.role, name=self.profile.name, hash=self.hash, network=self.network_hash)

    @property
    def duration_ns(self) -> int:
        """Duration [ns]."""
        return round(self.profile.duration_s * ex.NS_PER_S)

    def drawn(self, seed: int) -> Profile:
        """Return the path of a Run with `seed`: for 0 the Profile itself, else redrawn with its own seed + `seed`.

        A Profile without random processes (a preset, a measurement) is returned unchanged.
        """
        if self.network is not None:
            network = self.drawn_network(seed)
            return network.profiles()[network.path_names.index(self.role)]
        own = self.profile.seed
        return self.profile.reseed((own + seed) % 2**64) if own is not None and self.is_redrawn(seed) else self.profile

    def drawn_network(self, seed: int) -> Network:
        """Return the network of a Run with `seed`, as `drawn`. The Profile is a path of one."""
        assert self.network is not None
        own = self.network.seed
        return self.network.reseed((own + seed) % 2**64) if own is not None and seed != 0 else self.network

    def is_redrawn(self, seed: int) -> bool:
        """Return whether the path of a Run with `seed` differs from the given Profile."""
        return seed != 0 and self.profile.seed is not None


@dataclass(frozen=True)
class Work:
    """One planned Run. `experiment` refers to the given Profiles; the Run's record to their realisation by its seed."""

    bases: tuple[Base, ...]
    scheme: str
    seed: int
    phase: Phase
    experiment: ex.Experiment
    folder: Path
    world: World = "simulated"

    @property
    def label(self) -> str:
        """Label of its Profile in the folder; several are joined by ``+``."""
        return joined_labels(base.label for base in self.bases)

    @property
    def name(self) -> str:
        """Name for messages."""
        return f"{self.scheme}, seed {self.seed}, on {self.label}"

    @property
    def place(self) -> Place:
        """Its place in the folder."""
        return self.experiment.name, self.world, self.label, self.scheme, self.seed

    @property
    def identity(self) -> dict[str, Any]:
        """Properties that a finished Run must share to count as this work."""
        versions = record.versions(self.world, python_plugins(self.experiment))
        return identity(self.experiment, [base.hash for base in self.bases], versions)


def network_of(bases: Sequence[Base]) -> Network | None:
    """Return the network whose paths the Profiles of a Run are; None: they are of none."""
    return bases[0].network


def identity(experiment: ex.Experiment, base_hashes: Sequence[str], versions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Experiment with the given Profiles' hashes (a seed changes the realised ones) and the versions.

    Two builds of one version may simulate differently; two kernels or architectures may send differently.
    """
    profiles = [{**each.to_dict(), "hash": base} for each, base in zip(experiment.profiles, base_hashes, strict=True)]
    ran = {key: versions.get(key) for key in ("bentpipe", "build", "kernel", "machine")} | {
        key: value for key, value in versions.items() if key.startswith(record.PLUGINS)
    }
    whole: dict[str, Any] = json.loads(json.dumps({**experiment.to_dict(), "profiles": profiles, "versions": ran}))
    return whole
