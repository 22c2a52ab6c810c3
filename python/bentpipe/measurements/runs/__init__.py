"""Measured Runs: measurements of a real path, stored in the same layout as simulated and emulated Runs."""

from __future__ import annotations

from bentpipe.measurements.readers.measurement import PROBES
from bentpipe.measurements.runs.counts import count_probes
from bentpipe.measurements.runs.store import MeasuredRun, Source, find_measured, read_measured, write_measured
from bentpipe.measurements.runs.tables import DISH, HOPS, LINKS, SAMPLES, TABLES

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
