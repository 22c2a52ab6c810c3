"""Measured Profiles: the path that a prober saw, with its slots, its loss and its gaps.

`profile_from_pings` makes one; `read_capacity` and `of_tables` find the capacity that pings do not know; `given_back`
pings over the Profile, to be held against `seen` of the measurement. Definitions: ``docs/reference/profile-from.md``.
"""

from __future__ import annotations

from bentpipe.profiles.measured.agreement import (
    Seen,
    agreement,
    disagreement,
    given_back,
    regular_times,
    same_times,
    seen,
)
from bentpipe.profiles.measured.capacity import Capacity, of_tables, read_capacity
from bentpipe.profiles.measured.make import FromPings, Measured, profile_from_pings
from bentpipe.profiles.measured.probes import Probes

__all__ = [
    "Capacity",
    "FromPings",
    "Measured",
    "Probes",
    "Seen",
    "agreement",
    "disagreement",
    "given_back",
    "of_tables",
    "profile_from_pings",
    "read_capacity",
    "regular_times",
    "same_times",
    "seen",
]
