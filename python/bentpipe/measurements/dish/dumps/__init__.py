"""Read dumps of a terminal, by other tools and our own recorder, as tables of a recording.

Names are imported on first use, because the check for a recording does not need the formats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe import lazy

if TYPE_CHECKING:
    from bentpipe.measurements.dish.dumps.formats import FORMATS
    from bentpipe.measurements.dish.dumps.recordings import is_recording, measure_recording

#: Public name → its module.
_HOMES = {
    "FORMATS": "bentpipe.measurements.dish.dumps.formats",
    "is_recording": "bentpipe.measurements.dish.dumps.recordings",
    "measure_recording": "bentpipe.measurements.dish.dumps.recordings",
}

__all__ = ["FORMATS", "is_recording", "measure_recording"]


__getattr__ = lazy.names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
