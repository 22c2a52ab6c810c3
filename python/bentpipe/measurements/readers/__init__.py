"""Parsers for the output and files of measurement tools.

All are pure functions of bytes. `TOOLS` parses a program's standard output, flow by flow, into a `Reading`. `FORMATS`
parses files into a `Measurement`: the tables of a measured Run. To add a format, add a module here and an entry to one
of the two, or to both.

Names are imported on first use, so that reading a ping log does not load the curl parser.
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
