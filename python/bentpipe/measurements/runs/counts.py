"""Counts of irregularities in a table of probes: lost, duplicate, out of order, missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from bentpipe.analysis.evidence import usual
from bentpipe.analysis.latency import quantiles
from bentpipe.analysis.loss import SILENT_SPACINGS

#: Columns that identify a series: the probes of one prober to one target.
_SERIES = ("site", "target", "kind")


def count_probes(probes: pl.DataFrame) -> dict[str, Any]:
    """Count the probes for the summary of a measured Run.

    Args:
        probes: Columns `bentpipe.measurements.runs.PROBES`, sorted by time.

    Returns:
        `probes` (sent, without duplicates), `lost`, `loss` (share; null without a probe), `duplicates`,
        `out_of_order`, `gaps` (stretches in which a series has no row, not even a lost probe, for more than
        `SILENT_SPACINGS` of its median spacing), `longest_gap_s` (null without one), `silence_s` (the longest time
        between two replies; null with fewer than two), `span_s` (first to last probe) and the RTTs' `rtt_ms`:
        `min`, `median`, `p95`, `p99`, `max` over all series (interpolated, as `bentpipe.analysis.latency` does; null
        without a reply).
    """
    sent = probes.filter(~pl.col("duplicate")) if probes["duplicate"].any() else probes
    rtt_ms = _quantiles(sent["rtt_ms"].drop_nulls())
    gaps: list[float] = []
    silences: list[float] = []
    for series in _series(sent):
        steps = np.diff(series["unix_ns"].to_numpy()) / 1e9
        gaps += steps[steps > SILENT_SPACINGS * usual(steps)].tolist()
        if series["rtt_ms"].null_count():
            steps = np.diff(series["unix_ns"].filter(series["rtt_ms"].is_not_null()).to_numpy()) / 1e9
        if steps.size:
            silences.append(float(steps.max()))
    return {
        "probes": sent.height,
        "lost": sent["rtt_ms"].null_count(),
        "loss": sent["rtt_ms"].null_count() / sent.height if sent.height else None,
        "duplicates": probes.height - sent.height,
        "out_of_order": int(probes["out_of_order"].sum()),
        "gaps": len(gaps),
        "longest_gap_s": max(gaps, default=None),
        "silence_s": max(silences, default=None),
        "span_s": (sent["unix_ns"][-1] - sent["unix_ns"][0]) / 1e9 if sent.height else None,
        "rtt_ms": rtt_ms,
    }


def _quantiles(replies: pl.Series) -> dict[str, float | None]:
    levels = {"min": 0.0, "median": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    ordered = np.sort(replies.to_numpy())  # a copy, freed on return
    values = quantiles(ordered, list(levels.values())).tolist() if ordered.size else [None] * len(levels)
    return dict(zip(levels, values, strict=True))


def _series(sent: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the probes of each series, in time order."""
    if not sent.height:
        return []
    # An expression does not materialise a column with a single value.
    if sent.select(pl.col(_SERIES).n_unique() == 1).row(0) == (True,) * len(_SERIES):
        return [sent]
    return sent.partition_by(_SERIES, maintain_order=True)
