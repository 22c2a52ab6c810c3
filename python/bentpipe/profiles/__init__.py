"""Profiles: made from presets or orbits, read and written, summarised, and converted from and to what others use.

- `preset_profile`: static and published paths by name. `make_profile`: a terminal behind a constellation.
- `read_profile`, `write_profile`: one Parquet file, whole or not at all.
- `summarise`: what ``bentpipe profile show`` prints. `PathView`: end-to-end series over time.
- `convert`: mahimahi, netem, CSV, ping, irtt, iperf3, Hypatia.
"""

from __future__ import annotations

from bentpipe._native import Profile
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.parquet import read_profile, write_profile
from bentpipe.profiles.path import PathView
from bentpipe.profiles.presets import preset_profile
from bentpipe.profiles.show import summarise
from bentpipe.profiles.table import profile_from_frame, profile_to_frame

__all__ = [
    "PathView",
    "Profile",
    "make_profile",
    "preset_profile",
    "profile_from_frame",
    "profile_to_frame",
    "read_profile",
    "summarise",
    "write_profile",
]
