"""Runs on disk: reading, writing, and summaries over seeds with confidence intervals.

- `find_runs`, `read_run`: Runs from a folder.
- `summarise`, `compare`: figures over seeds.

Names are loaded on first use, so reading a measurement does not import the modules of races.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe import lazy

if TYPE_CHECKING:
    from bentpipe.errors import (
        StoreError,
    )
    from bentpipe.runs.estimates import (
        Estimate,
        estimate,
        jain_index,
        paired_ratio,
    )
    from bentpipe.runs.manifest import (
        Manifest,
        ManifestWarning,
        read_manifest,
    )
    from bentpipe.runs.path import (
        RacedPath,
        raced_path,
    )
    from bentpipe.runs.record import (
        results_table,
    )
    from bentpipe.runs.store import (
        Run,
        find_runs,
        read_run,
    )
    from bentpipe.runs.summary import (
        FlowSummary,
        LeftOut,
        SchemeSummary,
        StartUp,
        compare,
        compare_difference,
        counted,
        group_runs,
        left_out,
        paired_values,
        summarise,
        total_goodput_bps,
    )

#: Public name → the module that defines it.
_HOMES = {
    "Manifest": "bentpipe.runs.manifest",
    "ManifestWarning": "bentpipe.runs.manifest",
    "SchemeSummary": "bentpipe.runs.summary",
    "Estimate": "bentpipe.runs.estimates",
    "FlowSummary": "bentpipe.runs.summary",
    "LeftOut": "bentpipe.runs.summary",
    "RacedPath": "bentpipe.runs.path",
    "Run": "bentpipe.runs.store",
    "StartUp": "bentpipe.runs.summary",
    "StoreError": "bentpipe.errors",
    "compare": "bentpipe.runs.summary",
    "compare_difference": "bentpipe.runs.summary",
    "counted": "bentpipe.runs.summary",
    "estimate": "bentpipe.runs.estimates",
    "find_runs": "bentpipe.runs.store",
    "group_runs": "bentpipe.runs.summary",
    "jain_index": "bentpipe.runs.estimates",
    "left_out": "bentpipe.runs.summary",
    "paired_ratio": "bentpipe.runs.estimates",
    "paired_values": "bentpipe.runs.summary",
    "raced_path": "bentpipe.runs.path",
    "read_manifest": "bentpipe.runs.manifest",
    "read_run": "bentpipe.runs.store",
    "results_table": "bentpipe.runs.record",
    "summarise": "bentpipe.runs.summary",
    "total_goodput_bps": "bentpipe.runs.summary",
}

__all__ = [
    "Estimate",
    "FlowSummary",
    "LeftOut",
    "Manifest",
    "ManifestWarning",
    "RacedPath",
    "Run",
    "SchemeSummary",
    "StartUp",
    "StoreError",
    "compare",
    "compare_difference",
    "counted",
    "estimate",
    "find_runs",
    "group_runs",
    "jain_index",
    "left_out",
    "paired_ratio",
    "paired_values",
    "raced_path",
    "read_manifest",
    "read_run",
    "results_table",
    "summarise",
    "total_goodput_bps",
]


__getattr__ = lazy.names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
