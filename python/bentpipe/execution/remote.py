"""Transfer of jobs to other processes and machines, and their execution there."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.execution.drawn import DrawnProfiles
from bentpipe.execution.sinks.table import execute
from bentpipe.runs.work import Base

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from bentpipe.execution.job import Job


@dataclass(frozen=True)
class Parcel:
    """A serialised Profile: each worker receives it once, whatever the number of its Runs."""

    role: str
    label: str
    hash: str
    metadata: str
    table: Mapping[str, NDArray[Any]]

    @classmethod
    def of(cls, base: Base) -> Parcel:
        """Serialise a Profile."""
        return cls(base.role, base.label, base.hash, base.profile.metadata_json(), base.profile.table())


def pack(base: Base) -> bytes:
    """Serialise a Profile to bytes."""
    return pickle.dumps(Parcel.of(base))


@lru_cache(maxsize=32)
def unpack(packed: bytes) -> Base:
    """Return the Profile of `packed`, cached for all threads of a worker."""
    from bentpipe._native import Profile

    parcel: Parcel = pickle.loads(packed)
    return Base(parcel.role, parcel.label, Profile.from_table(parcel.metadata, **parcel.table), parcel.hash)


_DRAWN = DrawnProfiles(32)


def bare(job: Job) -> Job:
    """Return a job without its Profiles, which are sent as parcels."""
    return replace(job, work=replace(job.work, bases=()))


def remotely(packed: bytes, key: str, *parcels: bytes) -> str:
    """Run a job on a worker, with its Profiles from parcels.

    The job is in bytes, so that the scheduler does not need the module with its measure.
    """
    try:
        job: Job = pickle.loads(packed)
    except (ImportError, AttributeError) as error:  # an older bentpipe may have the module and not the function
        raise UserError(f"a worker cannot load the measure ({error}); install its module there") from None
    bases = tuple(unpack(parcel) for parcel in parcels)
    return execute(replace(job, work=replace(job.work, bases=bases)), key, _DRAWN)
