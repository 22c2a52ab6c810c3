"""What other tools, and our own recorder, keep of a terminal, as tables of a recording.

Names are loaded when they are first used: who looks whether a folder is a recording has no need of the formats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe import lazy

if TYPE_CHECKING:
    from bentpipe.measurements.dish.dumps.formats import FORMATS
    from bentpipe.measurements.dish.dumps.recordings import is_recording, measure_recording

#: Public name → the module it lives in.
_HOMES = {
    "FORMATS": "bentpipe.measurements.dish.dumps.formats",
    "is_recording": "bentpipe.measurements.dish.dumps.recordings",
    "measure_recording": "bentpipe.measurements.dish.dumps.recordings",
}

__all__ = ["FORMATS", "is_recording", "measure_recording"]


__getattr__ = lazy.names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
