"""Profiles: make them from presets or orbits, read, write and summarise them, and convert other tools' formats.

- `preset_profile`: a static or published path by name. `make_profile`: a terminal behind a constellation.
- `read_profile`, `write_profile`: one Parquet file, written atomically.
- `summarise`: the summary that ``bentpipe profile show`` prints. `PathView`: end-to-end series over time.
- `convert`: mahimahi, netem, CSV, iperf3, Hypatia, LeoReplayer, StarryNet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe import lazy

if TYPE_CHECKING:
    from bentpipe._native import Profile
    from bentpipe.profiles.make import make_profile
    from bentpipe.profiles.parquet import read_profile, write_profile
    from bentpipe.profiles.path import PathView
    from bentpipe.profiles.presets import preset_profile
    from bentpipe.profiles.show import summarise
    from bentpipe.profiles.table import profile_from_frame, profile_to_frame

_HOMES = {
    "PathView": "bentpipe.profiles.path",
    "Profile": "bentpipe._native",
    "make_profile": "bentpipe.profiles.make",
    "preset_profile": "bentpipe.profiles.presets",
    "profile_from_frame": "bentpipe.profiles.table",
    "profile_to_frame": "bentpipe.profiles.table",
    "read_profile": "bentpipe.profiles.parquet",
    "summarise": "bentpipe.profiles.show",
    "write_profile": "bentpipe.profiles.parquet",
}

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

__getattr__ = lazy.names_of(__name__, _HOMES)
