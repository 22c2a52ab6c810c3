"""What another process or machine does with a job, and what it gets of it."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.execution.drawn import DrawnProfiles
from bentpipe.execution.sweeps.swept import execute
from bentpipe.runs.work import Base

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from bentpipe.execution.sweeps.job import Job


@dataclass(frozen=True)
class Parcel:
    """A given Profile as it travels: it reaches each worker once, whatever the number of its Runs."""

    role: str
    label: str
    hash: str
    metadata: str
    table: Mapping[str, NDArray[Any]]

    @classmethod
    def of(cls, base: Base) -> Parcel:
        """Packs it."""
        return cls(base.role, base.label, base.hash, base.profile.metadata_json(), base.profile.table())


def pack(base: Base) -> bytes:
    """A `Parcel` as bytes."""
    return pickle.dumps(Parcel.of(base))


@lru_cache(maxsize=32)
def unpack(packed: bytes) -> Base:
    """The Profile in it. A worker's threads share what they unpacked."""
    from bentpipe._native import Profile

    parcel: Parcel = pickle.loads(packed)
    return Base(parcel.role, parcel.label, Profile.from_table(parcel.metadata, **parcel.table), parcel.hash)


_DRAWN = DrawnProfiles(32)


def bare(job: Job) -> Job:
    """A job without its Profiles, which travel as parcels."""
    return replace(job, work=replace(job.work, bases=()))


def remotely(packed: bytes, key: str, *parcels: bytes) -> str:
    """What a worker does with a job that came without its Profiles.

    As bytes, so that the scheduler need not have the module with its measure.
    """
    try:
        job: Job = pickle.loads(packed)
    except (ImportError, AttributeError) as error:  # an older bentpipe may have the module and not the function
        raise UserError(f"a worker cannot load what is measured ({error}); install it there") from None
    bases = tuple(unpack(parcel) for parcel in parcels)
    return execute(replace(job, work=replace(job.work, bases=bases)), key, _DRAWN)
