"""Orientation of a terminal, and latency by orientation (T3P, section 3.5, figures 4a and 4b)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from bentpipe.analysis.tables import check_columns
from bentpipe.errors import UserError

#: Dish telemetry at about 1 Hz, one row per sample.
POINTING = {"azimuth_deg": pl.Float64(), "elevation_deg": pl.Float64(), "latency_ms": pl.Float64()}
#: Side of a bin [deg]; chosen here: the paper's bands are 1.6 and 0.9 deg wide.
BIN_DEG = 0.1
#: Fewest samples with a latency for a 95th percentile of a bin; chosen here: fewer have no sample above it.
LEAST_SAMPLES = 20
#: Share of samples in a band (T3P, section 3.5: 90 %).
BAND = 0.9


@dataclass(frozen=True)
class Orientation:
    """Maps over azimuth and elevation.

    Attributes:
        samples: Rows with both angles.
        bins: One row per visited bin: `azimuth_deg`, `elevation_deg` (its centre; azimuth from -180 to 180),
            `samples`, `share` (figure 4a), `median_ms`, `p95_ms` (figure 4b; null with fewer than `LEAST_SAMPLES`).
        azimuth_band_deg: The narrowest band that holds `BAND` of the azimuths (the paper's BCN-1: 0.2 to 1.8).
        elevation_band_deg: The same of elevations (64.5 to 65.4).
        rank_correlation: Spearman's correlation of `share` and `p95_ms` over bins that have both. It is negative for
            the paper's finding that rare orientations have high latency. None with fewer than three bins.
    """

    samples: int
    bins: pl.DataFrame
    azimuth_band_deg: tuple[float, float] | None
    elevation_band_deg: tuple[float, float] | None
    rank_correlation: float | None

    def busiest(self, most: int) -> pl.DataFrame:
        """Return the `most` bins with the most samples, in descending order."""
        return self.bins.sort("samples", descending=True, maintain_order=True).head(most)


def orientation_maps(telemetry: pl.DataFrame | pl.LazyFrame, bin_deg: float = BIN_DEG) -> Orientation:
    """Return occupancy and latency by orientation.

    Args:
        telemetry: Columns `POINTING`; null latency: unknown. Rows without an angle are left out.
        bin_deg: Side of a bin [deg].

    Raises:
        UserError: A column is missing or of another type, or `bin_deg` is not above 0.
    """
    if not bin_deg > 0:
        raise UserError(f"bin_deg is {bin_deg:g}; expected above 0")
    lazy = telemetry.lazy()
    check_columns(lazy, POINTING, "telemetry")
    rows = (
        lazy.select(*POINTING)
        .with_columns(pl.all().fill_nan(None))
        .drop_nulls(["azimuth_deg", "elevation_deg"])
        .with_columns((pl.col("azimuth_deg") + 180) % 360 - 180)
        .collect()
    )
    bins = (
        rows.group_by(
            (pl.col("azimuth_deg") / bin_deg).floor().cast(pl.Int64).alias("i"),
            (pl.col("elevation_deg") / bin_deg).floor().cast(pl.Int64).alias("j"),
        )
        .agg(
            pl.len().alias("samples"),
            (pl.len() / rows.height).alias("share"),
            pl.col("latency_ms").median().alias("median_ms"),
            pl.when(pl.col("latency_ms").count() >= LEAST_SAMPLES)
            .then(pl.col("latency_ms").quantile(0.95, "linear"))
            .alias("p95_ms"),
        )
        .sort("i", "j")
        .select(
            ((pl.col("i") + 0.5) * bin_deg).alias("azimuth_deg"),
            ((pl.col("j") + 0.5) * bin_deg).alias("elevation_deg"),
            "samples",
            "share",
            "median_ms",
            "p95_ms",
        )
    )
    both = bins.drop_nulls("p95_ms")
    enough = both.height >= 3 and both["share"].n_unique() > 1 and both["p95_ms"].n_unique() > 1
    rank = both.select(pl.corr("share", "p95_ms", method="spearman")).item() if enough else None
    return Orientation(
        rows.height,
        bins,
        _band(rows["azimuth_deg"].to_numpy(), circle_deg=360.0),
        _band(rows["elevation_deg"].to_numpy()),
        rank,
    )


def _band(
    value_deg: np.ndarray[tuple[int], np.dtype[np.float64]], circle_deg: float | None = None
) -> tuple[float, float] | None:
    """Return the narrowest interval with `BAND` of the values; on a circle its end may exceed 180 degrees."""
    if not value_deg.size:
        return None
    ordered = np.sort(value_deg)
    take = int(np.ceil(BAND * ordered.size))
    if circle_deg is not None:
        ordered = np.concatenate([ordered, ordered[: take - 1] + circle_deg])
    widths = ordered[take - 1 :] - ordered[: ordered.size - take + 1]
    first = int(widths.argmin())
    return float(ordered[first]), float(ordered[first + take - 1])
