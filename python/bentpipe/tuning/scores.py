"""Score of a setting relative to the default: goodput gain and RTT inflation, with confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bentpipe.runs.estimates import Estimate, paired_ratio

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bentpipe.execution.job import Outcome
    from bentpipe.execution.sinks.table import SweptRun

FEWEST_PROFILES = 3
"""With at least this many Profiles, each Profile is one observation, else each pair of Profile and seed. Chosen here:
seeds of one Profile share its geometry and tell little about others; two Profiles give no useful interval."""


def by_second(outcome: Outcome) -> dict[str, Any]:
    """Return goodput and smoothed RTT of all flows together, second by second after the warm-up.

    These are the values that iperf prints of an upload and that T3P's section 5 uses ("1 s granularity").

    Returns:
        `goodput_bps`: of all flows together; `rtt_ms`: the flows' mean at the end of the second, None if no flow has
        an RTT.
    """
    seconds = (
        outcome.seconds()
        .group_by("t_s")
        .agg(pl.col("goodput_bytes").sum(), pl.col("rtt_smoothed_ms").mean())
        .sort("t_s")
        .with_columns(goodput_bps=pl.col("goodput_bytes").cast(pl.Int64).diff() * 8)
        .drop_nulls("goodput_bps")
    )
    return {"goodput_bps": seconds["goodput_bps"].to_list(), "rtt_ms": seconds["rtt_smoothed_ms"].to_list()}


@dataclass(frozen=True)
class Score:
    """A setting relative to the default, over the same paths.

    Attributes:
        goodput_bps: Mean goodput over all seconds of all Runs [bit/s].
        gain: Ratio of its goodput to the default's over observations (1.15: 15 % more); None: one has no goodput.
        rtt_p95: Ratio of the 95th percentiles of the RTTs of all seconds.
        rtt_mean: Ratio of their means.
        missing: Number of Runs (a seed of a Profile) that the default finished and this setting did not. These Runs,
            and those that only this setting finished, are excluded.
    """

    goodput_bps: float
    gain: Estimate | None
    rtt_p95: Estimate | None
    rtt_mean: Estimate | None
    missing: int = 0

    def within(self, most_inflation: float) -> bool:
        """Tell whether p95 and mean of the RTT are inflated by less than this (0.10: 10 %), by point estimates."""
        return all(each is not None and each.mean < 1.0 + most_inflation for each in (self.rtt_p95, self.rtt_mean))


@dataclass(frozen=True)
class _Unit:
    """All seconds of a setting in one observation."""

    goodput_bps: float
    rtt_p95_ms: float
    rtt_mean_ms: float


def score(runs: Iterable[SweptRun], scheme: str, default: str) -> Score:
    """Score a scheme relative to the default, over the Runs that both finished, measured with `by_second`."""
    listed = [run for run in runs if run.scheme in (scheme, default) and run.record.valid]
    mine, its = ({(run.label, run.seed) for run in listed if run.scheme == each} for each in (scheme, default))
    listed = [run for run in listed if (run.label, run.seed) in mine & its]
    labels = {run.label for run in listed}
    ours, theirs = (_units(listed, each, by_profile=len(labels) >= FEWEST_PROFILES) for each in (scheme, default))
    both = sorted(ours.keys() & theirs.keys())

    def ratio(name: str) -> Estimate | None:
        return paired_ratio([getattr(ours[key], name) for key in both], [getattr(theirs[key], name) for key in both])

    mean_bps = float(np.mean([ours[key].goodput_bps for key in both])) if both else 0.0
    return Score(mean_bps, ratio("goodput_bps"), ratio("rtt_p95_ms"), ratio("rtt_mean_ms"), len(its - mine))


def _units(runs: Sequence[SweptRun], scheme: str, *, by_profile: bool) -> dict[tuple[str, int], _Unit]:
    gathered: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for run in runs:
        if run.scheme == scheme:
            gathered.setdefault((run.label, -1 if by_profile else run.seed), []).append(run.measures)
    return {key: unit for key, parts in gathered.items() if (unit := _unit(parts)) is not None}


def _unit(parts: Sequence[Mapping[str, Any]]) -> _Unit | None:
    goodput = [value for part in parts for value in part["goodput_bps"]]
    rtts = [value for part in parts for value in part["rtt_ms"] if value is not None]
    if not goodput or not rtts:
        return None
    return _Unit(float(np.mean(goodput)), float(np.percentile(rtts, 95)), float(np.mean(rtts)))
