"""Speed tests over months: level, trend, and peak against off-peak hours (Huston 2024, figures 2, 6 and 7)."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import polars as pl

from bentpipe.analysis.tables import check_columns
from bentpipe.errors import UserError

#: Speed tests, one row per test and direction; `throughput_bps` null: failed.
TESTS = {"unix_ns": pl.Int64(), "direction": pl.String(), "throughput_bps": pl.Float64()}
#: Local hours that count as peak; chosen here: evenings, when subscribers are at home (FCC, "Measuring Broadband
#: America": 7 to 11 p.m.).
PEAK_HOURS = (19, 23)
#: Most days in the trend, evenly spaced; chosen here: 2 million pairs of days.
MOST_DAYS = 2000


@dataclass(frozen=True)
class Throughput:
    """Throughput over months.

    Attributes:
        summary: One row per direction: `tests`, `failed`, `min_bps`, `p5_bps`, `median_bps`, `p95_bps`, `max_bps`,
            `peak_bps`, `off_peak_bps` (medians), `off_peak_over_peak` (Huston's CUBIC: 3 to 4; null where the peak's is
            0), `trend_per_month`: the median of the slopes between daily medians (Theil and Sen) over 30 days, as a
            share of the median; null below 30 days.
        months: One row per direction and calendar month: `month` (YYYY-MM, local), `tests`, `p5_bps`, `median_bps`,
            `p95_bps` (figure 2).
        hours: One row per direction and local hour: `hour`, `tests`, `median_bps`.
    """

    summary: pl.DataFrame
    months: pl.DataFrame
    hours: pl.DataFrame


def throughput_series(tests: pl.DataFrame | pl.LazyFrame, zone: str = "UTC") -> Throughput:
    """Return level, trend and daily pattern of speed tests.

    Args:
        tests: Columns `TESTS`.
        zone: Time zone of the terminal, as "Europe/Brussels": peak hours are local ones.

    Raises:
        UserError: A column is missing or of another type, the zone is unknown, or a throughput is negative.
    """
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UserError(f"unknown time zone {zone!r}; expected a name as Europe/Brussels or UTC") from None
    lazy = tests.lazy()
    check_columns(lazy, TESTS, "speed tests")
    rows = lazy.select(*TESTS).collect()
    negative = rows.filter(pl.col("throughput_bps") < 0)
    if negative.height:
        at, value = negative["unix_ns"][0], negative["throughput_bps"][0]
        raise UserError(f"speed tests: throughput_bps is {value:g} at unix_ns {at}; expected 0 or more, or null")
    local = pl.from_epoch("unix_ns", "ns").dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    rows = rows.with_columns(local.alias("local")).with_columns(
        pl.col("local").dt.strftime("%Y-%m").alias("month"),
        pl.col("local").dt.hour().cast(pl.Int64).alias("hour"),
        pl.col("local").dt.date().alias("day"),
    )
    bps = pl.col("throughput_bps")
    peak = pl.col("hour").is_between(*PEAK_HOURS, closed="left")
    summary = (
        rows.group_by("direction")
        .agg(
            pl.len().alias("tests"),
            bps.null_count().alias("failed"),
            bps.min().alias("min_bps"),
            bps.quantile(0.05, "linear").alias("p5_bps"),
            bps.median().alias("median_bps"),
            bps.quantile(0.95, "linear").alias("p95_bps"),
            bps.max().alias("max_bps"),
            bps.filter(peak).median().alias("peak_bps"),
            bps.filter(~peak).median().alias("off_peak_bps"),
        )
        .with_columns(
            pl.when(pl.col("peak_bps") > 0)
            .then(pl.col("off_peak_bps") / pl.col("peak_bps"))
            .alias("off_peak_over_peak")
        )
        .sort("direction")
    )
    trends = [_trend_per_month(rows.filter(pl.col("direction") == name)) for name in summary["direction"]]
    summary = summary.with_columns(pl.Series("trend_per_month", trends, pl.Float64))
    months = (
        rows.group_by("direction", "month")
        .agg(
            pl.len().alias("tests"),
            bps.quantile(0.05, "linear").alias("p5_bps"),
            bps.median().alias("median_bps"),
            bps.quantile(0.95, "linear").alias("p95_bps"),
        )
        .sort("direction", "month")
    )
    hours = rows.group_by("direction", "hour").agg(pl.len().alias("tests"), bps.median().alias("median_bps"))
    return Throughput(summary, months, hours.sort("direction", "hour"))


def _trend_per_month(rows: pl.DataFrame) -> float | None:
    """Return the Theil–Sen slope of daily medians, as a share of their median per 30 days."""
    days = rows.group_by("day").agg(pl.col("throughput_bps").median()).drop_nulls().sort("day")
    if days.height < 2:
        return None
    if days.height > MOST_DAYS:
        days = days[np.linspace(0, days.height - 1, MOST_DAYS).astype(int).tolist()]
    day = days["day"].cast(pl.Int32).to_numpy().astype(np.float64)
    bps = days["throughput_bps"].to_numpy()
    level = float(np.median(bps))
    if day[-1] - day[0] < 30 or level <= 0:
        return None
    i, j = np.triu_indices(day.size, 1)
    return float(np.median((bps[j] - bps[i]) / (day[j] - day[i]))) * 30 / level
