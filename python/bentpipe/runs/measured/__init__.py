"""Measured Runs: what was seen on a real path, in the same kind of folder as what was simulated or emulated."""

from __future__ import annotations

from bentpipe.readers.measurement import PROBES
from bentpipe.runs.measured.counting import count_probes
from bentpipe.runs.measured.store import MeasuredRun, Source, find_measured, read_measured, write_measured
from bentpipe.runs.measured.tables import DISH, HOPS, LINKS, SAMPLES, TABLES

__all__ = [
    "DISH",
    "HOPS",
    "LINKS",
    "PROBES",
    "SAMPLES",
    "TABLES",
    "MeasuredRun",
    "Source",
    "count_probes",
    "find_measured",
    "read_measured",
    "write_measured",
]
