"""Simulate, emulate and measure transports and applications over low-earth-orbit satellite Internet.

Input: a Profile (a path over time). Output: a Run (tables and a record). The functions of the command line:

- `make_profile`, `preset_profile`, `read_profile`, `write_profile`, `summarise`: Profiles.
- `read_as`, `write_as`: other tools' formats.
- `sky`, `route`: satellites above a place, and the shortest path through a constellation.
- `race`, `simulate`, `write_report`: congestion controllers over Profiles.
- `UserError`: errors that the caller can fix.

Names are loaded on first use, so importing bentpipe is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe import lazy
from bentpipe.errors import BentpipeError, UserError

if TYPE_CHECKING:
    from bentpipe._native import Profile, __version__, controllers, simulate
    from bentpipe.execution.racing import race
    from bentpipe.orbits.routes import route
    from bentpipe.orbits.sky import sky
    from bentpipe.profiles.convert import read_as, write_as
    from bentpipe.profiles.make import make_profile
    from bentpipe.profiles.parquet import read_profile, write_profile
    from bentpipe.profiles.presets import preset_profile
    from bentpipe.profiles.show import summarise
    from bentpipe.report.build import write_report

#: Public name → the module it lives in.
_HOMES = {
    "Profile": "bentpipe._native",
    "__version__": "bentpipe._native",
    "controllers": "bentpipe._native",
    "make_profile": "bentpipe.profiles.make",
    "preset_profile": "bentpipe.profiles.presets",
    "race": "bentpipe.execution.racing",
    "read_as": "bentpipe.profiles.convert",
    "read_profile": "bentpipe.profiles.parquet",
    "route": "bentpipe.orbits.routes",
    "simulate": "bentpipe._native",
    "sky": "bentpipe.orbits.sky",
    "summarise": "bentpipe.profiles.show",
    "write_as": "bentpipe.profiles.convert",
    "write_profile": "bentpipe.profiles.parquet",
    "write_report": "bentpipe.report.build",
}

__all__ = [
    "BentpipeError",
    "Profile",
    "UserError",
    "__version__",
    "controllers",
    "make_profile",
    "preset_profile",
    "race",
    "read_as",
    "read_profile",
    "route",
    "simulate",
    "sky",
    "summarise",
    "write_as",
    "write_profile",
    "write_report",
]


__getattr__ = lazy.names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
