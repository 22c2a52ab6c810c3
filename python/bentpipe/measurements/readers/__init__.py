"""What measuring tools print and keep, as tables.

Pure functions from bytes to a `Reading` (`TOOLS`: what a program writes to its standard output, flow by flow) or to a
`Measurement` (`FORMATS`: files, as tables of a measured Run); where the bytes come from is the caller's business. A
format that is added is a file here and a line in one of the two, or in both.

Names are loaded when they are first used: who reads a log of ping has no need of curl's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe import lazy

if TYPE_CHECKING:
    from bentpipe.measurements.readers.reading import Arrivals, Flow, Reading
    from bentpipe.measurements.readers.tools import MOST_BYTES, TOOLS, read, recognise

#: Public name → the module it lives in.
_HOMES = {
    "MOST_BYTES": "bentpipe.measurements.readers.tools",
    "TOOLS": "bentpipe.measurements.readers.tools",
    "Arrivals": "bentpipe.measurements.readers.reading",
    "Flow": "bentpipe.measurements.readers.reading",
    "Reading": "bentpipe.measurements.readers.reading",
    "read": "bentpipe.measurements.readers.tools",
    "recognise": "bentpipe.measurements.readers.tools",
}

__all__ = ["MOST_BYTES", "TOOLS", "Arrivals", "Flow", "Reading", "read", "recognise"]


__getattr__ = lazy.names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
