"""Measured Profiles: a path as a prober measured it, with slots, loss and gaps.

`profile_from_pings` makes one. `read_capacity` and `capacities_from_tables` give the capacity, which pings do not
measure. `simulated_ping_stats` pings over the Profile, for comparison with `ping_stats` of the measurement.
Definitions: ``docs/reference/profile-from.md``.
"""

from __future__ import annotations

from bentpipe.profiles.measured.agreement import (
    PingStats,
    agreement,
    disagreement,
    ping_stats,
    regular_times,
    shifted_times,
    simulated_ping_stats,
)
from bentpipe.profiles.measured.capacity import Capacity, capacities_from_tables, read_capacity
from bentpipe.profiles.measured.make import FromPings, Measured, profile_from_pings
from bentpipe.profiles.measured.probes import Probes

__all__ = [
    "Capacity",
    "FromPings",
    "Measured",
    "PingStats",
    "Probes",
    "agreement",
    "capacities_from_tables",
    "disagreement",
    "ping_stats",
    "profile_from_pings",
    "read_capacity",
    "regular_times",
    "shifted_times",
    "simulated_ping_stats",
]
