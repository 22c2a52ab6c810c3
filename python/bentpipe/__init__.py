"""How transports and applications behave over low-earth-orbit satellite Internet.

A Profile (the path over time) goes in, a Run (what happened) comes out. What the command line does, these do:

- `make_profile`, `preset_profile`, `read_profile`, `write_profile`, `summarise`: Profiles.
- `read_as`, `write_as`: other people's formats.
- `sky`, `route`: who is up, and the shortest way through a constellation.
- `race`, `simulate`, `write_report`: controllers against each other over Profiles.
- `UserError`: what can be put right by the caller.

Names are loaded when they are first used, so importing bentpipe is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe import lazy
from bentpipe.errors import BentpipeError, UserError

if TYPE_CHECKING:
    from bentpipe._native import Profile, __version__, controllers, simulate
    from bentpipe.orbit import route, sky
    from bentpipe.profiles import make_profile, preset_profile, read_profile, summarise, write_profile
    from bentpipe.profiles.convert import read_as, write_as
    from bentpipe.report import write_report
    from bentpipe.runs import race

#: Public name → the module it lives in.
_HOMES = {
    "Profile": "bentpipe._native",
    "__version__": "bentpipe._native",
    "controllers": "bentpipe._native",
    "make_profile": "bentpipe.profiles",
    "preset_profile": "bentpipe.profiles",
    "race": "bentpipe.runs",
    "read_as": "bentpipe.profiles.convert",
    "read_profile": "bentpipe.profiles",
    "route": "bentpipe.orbit",
    "simulate": "bentpipe._native",
    "sky": "bentpipe.orbit",
    "summarise": "bentpipe.profiles",
    "write_as": "bentpipe.profiles.convert",
    "write_profile": "bentpipe.profiles",
    "write_report": "bentpipe.report",
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
