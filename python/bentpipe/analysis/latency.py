"""Quantiles and distributions of RTTs by series, and the jitter between successive ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bentpipe.analysis.tables import KEYS, series

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Quantiles in a summary: the usual ones of publications.
QUANTILES = {"p5_ms": 0.05, "p25_ms": 0.25, "median_ms": 0.5, "p75_ms": 0.75, "p95_ms": 0.95, "p99_ms": 0.99}
#: Points of a distribution; chosen here: enough for a line and for p99.9.
CDF_POINTS = 1001


def latency_summary(table: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """Summarise the RTTs of each site, target and kind of probe (T3P, section 3.2 and figure 2).

    Args:
        table: Pings (`tables.PINGS`).

    Returns:
        One row per series: `site`, `target`, `kind`, `probes`, `lost`, `loss` (share), `min_ms`, the `QUANTILES`,
        `max_ms`, `p99_over_median` and `max_over_median` (the paper: above 2.4, 11 to 16), `jitter_ms`: the mean
        |difference| of successive replies (Huston 2024: 6.7 ms). Quantiles are interpolated linearly; null where
        nothing answered.

    Raises:
        UserError: See `tables.series`.
    """
    rows = []
    for one in series(table):
        rtt_ms = one.rtt_ms[~one.lost] if one.lost.any() else one.rtt_ms
        row: dict[str, object] = {
            "site": one.site,
            "target": one.target,
            "kind": one.kind,
            "probes": one.rtt_ms.size,
            "lost": int(one.lost.sum()),
            "loss": float(one.lost.mean()) if one.rtt_ms.size else None,
        }
        jitter = None
        if rtt_ms.size > 1:
            steps = np.diff(rtt_ms)
            jitter = float(np.abs(steps, out=steps).mean())
            del steps
        ordered = pl.Series(rtt_ms).sort().to_numpy()
        known = ordered.size > 0
        levels = [0.0, *QUANTILES.values(), 1.0]
        values = dict(
            zip(["min_ms", *QUANTILES, "max_ms"], quantiles(ordered, levels) if known else [None] * 8, strict=True)
        )
        row |= values
        median = values["median_ms"]
        for name, of in (("p99_over_median", "p99_ms"), ("max_over_median", "max_ms")):
            value = values[of]
            row[name] = value / median if value is not None and median else None
        rows.append(row | {"jitter_ms": jitter})
    counts = {"probes": pl.Int64, "lost": pl.Int64, "loss": pl.Float64}
    numbers = ["min_ms", *QUANTILES, "max_ms", "p99_over_median", "max_over_median", "jitter_ms"]
    return pl.DataFrame(rows, schema={**dict.fromkeys(KEYS, pl.String), **counts, **dict.fromkeys(numbers, pl.Float64)})


def cdf(table: pl.DataFrame | pl.LazyFrame, points: int = CDF_POINTS) -> pl.DataFrame:
    """Return the distribution of RTTs of each site, target and kind of probe (T3P, figure 2).

    Args:
        table: Pings (`tables.PINGS`).
        points: Points per series, evenly spaced in `share`; at least 2.

    Returns:
        `site`, `target`, `kind`, `rtt_ms`, `share`: the share of replies at or below `rtt_ms`, from 0 to 1. Series
        without a reply have no rows.
    """
    share = np.linspace(0, 1, points)
    parts = []
    for one in series(table):
        ordered = pl.Series(one.replies()[1]).sort().to_numpy()
        if ordered.size:
            parts.append(
                pl.DataFrame({"rtt_ms": quantiles(ordered, share), "share": share}).select(
                    pl.lit(one.site, pl.String).alias("site"),
                    pl.lit(one.target, pl.String).alias("target"),
                    pl.lit(one.kind, pl.String).alias("kind"),
                    "rtt_ms",
                    "share",
                )
            )
    empty = pl.DataFrame(schema={**dict.fromkeys(KEYS, pl.String), "rtt_ms": pl.Float64, "share": pl.Float64})
    return pl.concat([empty, *parts])


def quantiles(ordered: NDArray[np.float64], levels: list[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return quantiles of sorted values by linear interpolation of order statistics (Hyndman and Fan's type 7)."""
    at = np.asarray(levels) * (ordered.size - 1)
    below = np.minimum(at.astype(np.int64), ordered.size - 1)
    above = np.minimum(below + 1, ordered.size - 1)
    values: NDArray[np.float64] = (ordered[above] - ordered[below]) * (at - below) + ordered[below]
    return values
