"""Profiles: make them from presets or orbits, read, write and summarise them, and convert other tools' formats.

- `preset_profile`: a static or published path by name. `make_profile`: a terminal behind a constellation.
- `read_profile`, `write_profile`: one Parquet file, written atomically.
- `summarise`: the summary that ``bentpipe profile show`` prints. `PathView`: end-to-end series over time.
- `convert`: mahimahi, netem, CSV, iperf3, Hypatia, LeoReplayer, StarryNet.
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
